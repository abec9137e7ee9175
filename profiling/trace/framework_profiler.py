"""The profilers of TensorFlow and JAX: started, stopped, and asked for their file, whatever goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from profiling.trace.parts import STEP
from profiling.trace.xplane import forget_host

BACKENDS = ("tensorflow", "jax")
"""The frameworks whose profilers write xplane.pb."""
NO_PROFILER = {
    "torch": "PyTorch's profiler writes Chrome traces, which neither TensorBoard's profile plug-in nor xprof reads: "
    "trace this workload with --backend tensorflow or jax"
}


class Profiler:
    """One framework's profiler, started and stopped at most once; `reason` says what went wrong with it, if anything.

    Whatever a profiler raises is a reason, not an error: it must not end the measurement that it watches.
    """

    def __init__(self, folder: Path, backend: str) -> None:
        self._folder, self._backend = folder, backend
        self._before: set[Path] = set()
        self.running = False
        self.reason: str | None = None
        self.start_s = self.stop_s = 0.0

    def start(self) -> None:
        begin = perf_counter()
        self.reason = unsupported(self._backend) or unwritable(self._folder)
        if self.reason is None:
            self._before = self._files()
            self.reason = self._attempt("start", self._start)
            self.running = self.reason is None
        self.start_s = perf_counter() - begin

    def stop(self) -> None:
        """Stop and write, if it runs."""
        if not self.running:
            return
        begin = perf_counter()
        self.running = False
        self.reason = self._attempt("stop", self._stop)
        if self.reason and self._backend == "jax":
            forget_jax_session()
        self.reason = self.reason or self._attempt("leave out the host's name", self._forget_host)
        self.stop_s = perf_counter() - begin

    def file(self) -> str | None:
        """Return the trace that was written, within the folder; None, and a reason, where there is none."""
        written = sorted(path for path in self._files() - self._before if path.stat().st_size)
        if not written and self.reason is None:
            self.reason = (
                "no trace was captured" if not self.stop_s else f"the profiler wrote nothing to {self._folder}"
            )
        return str(written[-1].relative_to(self._folder)) if written and self.reason is None else None

    def step(self, number: int) -> Any:
        """Return a context manager that marks one step in the trace."""
        if self._backend == "jax":
            import jax

            return jax.profiler.StepTraceAnnotation(STEP, step_num=number)
        import tensorflow as tf

        # _r=1 says that it is a step: without it no tool computes a step time.
        return tf.profiler.experimental.Trace(STEP, step_num=number, _r=1)

    def mark(self, name: str) -> None:
        """Write an event of no length into the trace."""
        if not self.running:
            return
        if self._backend == "jax":
            import jax

            with jax.profiler.TraceAnnotation(name):
                return
        import tensorflow as tf

        with tf.profiler.experimental.Trace(name):
            return

    def _forget_host(self) -> None:
        for file in self._files() - self._before:
            if file.stat().st_size:
                forget_host(file)

    def _files(self) -> set[Path]:
        return set(self._folder.glob("plugins/profile/*/*.xplane.pb"))

    def _attempt(self, what: str, action: Callable[[], None]) -> str | None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - each framework raises its own kinds, and none may end the training
            said = " ".join(f"{type(error).__name__}: {error}".split())
            return f"the profiler of {self._backend} did not {what}: {said}"
        return None

    def _start(self) -> None:
        if self._backend == "jax":
            import jax

            # Python functions are traced: what Keras's JAX trainer waits for input with is one.
            jax.profiler.start_trace(str(self._folder))
        else:
            import tensorflow as tf

            tf.profiler.experimental.start(str(self._folder))

    def _stop(self) -> None:
        if self._backend == "jax":
            import jax

            jax.profiler.stop_trace()
        else:
            import tensorflow as tf

            tf.profiler.experimental.stop()


def forget_jax_session() -> None:
    """Let JAX start its profiler again: where stopping fails it keeps the ended session, and refuses every later one.

    JAX has no public way to do it (jax/_src/profiler.py: `stop_trace` resets its state only when all went well).
    """
    with suppress(ImportError, AttributeError):
        from jax._src.profiler import _profile_state

        _profile_state.reset()


def unsupported(backend: str) -> str | None:
    """Return why that backend cannot be traced."""
    if backend in BACKENDS:
        return None if find_spec(backend) else f"{backend} is not installed"
    return NO_PROFILER.get(backend, f"{backend} has no profiler that writes xplane.pb")


def unwritable(folder: Path) -> str | None:
    """Return why no trace can be written to the folder, which is made if it is not there."""
    probe = folder / f".writable-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(bytes(4096))
        probe.unlink()
    except OSError as error:
        return f"the trace folder cannot be written: {error.strerror}: {folder}"
    return None
