"""Profilers of TensorFlow, JAX and PyTorch behind one interface."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from typing import Any, Protocol

from accelbench.profiling.machine.identity import HOST
from accelbench.profiling.trace import chrome, xplane
from accelbench.profiling.trace.formats import CHROME, XPLANE, TraceFormat
from accelbench.profiling.trace.parts import STEP


class Framework(Protocol):
    """One framework's profiler; it raises whatever the framework does."""

    format: TraceFormat

    def start(self, folder: Path) -> None:
        """Start, for a trace under the folder."""

    def stop(self) -> None:
        """Stop, and write the trace."""

    def forget_host(self, file: Path) -> None:
        """Take the host's name out of the file that was written."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        """Return a context manager that marks one step in the trace."""

    def mark(self, name: str) -> AbstractContextManager[Any]:
        """Return a context manager that marks what goes on in it."""


class TensorFlow:
    """The profiler of TensorFlow; on a GPU by CUPTI."""

    format = XPLANE

    def start(self, folder: Path) -> None:
        import tensorflow as tf

        tf.profiler.experimental.start(str(folder))

    def stop(self) -> None:
        import tensorflow as tf

        tf.profiler.experimental.stop()

    def forget_host(self, file: Path) -> None:
        xplane.forget_host(file)

    def step(self, number: int) -> AbstractContextManager[Any]:
        import tensorflow as tf

        # _r=1 says that it is a step: without it no tool computes a step time.
        found: AbstractContextManager[Any] = tf.profiler.experimental.Trace(STEP, step_num=number, _r=1)
        return found

    def mark(self, name: str) -> AbstractContextManager[Any]:
        import tensorflow as tf

        found: AbstractContextManager[Any] = tf.profiler.experimental.Trace(name)
        return found


class Jax:
    """The profiler of JAX, which traces Python's functions, too: what Keras's trainer waits for input with is one."""

    format = XPLANE

    def start(self, folder: Path) -> None:
        import jax

        jax.profiler.start_trace(str(folder))

    def stop(self) -> None:
        import jax

        try:
            jax.profiler.stop_trace()
        except BaseException:
            forget_jax_session()
            raise

    def forget_host(self, file: Path) -> None:
        xplane.forget_host(file)

    def step(self, number: int) -> AbstractContextManager[Any]:
        import jax

        found: AbstractContextManager[Any] = jax.profiler.StepTraceAnnotation(STEP, step_num=number)
        return found

    def mark(self, name: str) -> AbstractContextManager[Any]:
        import jax

        found: AbstractContextManager[Any] = jax.profiler.TraceAnnotation(name)
        return found


class Torch:
    """The profiler of PyTorch (Kineto), without the stacks of Python: they take ten times the events.

    Where there is a CUDA device its kernels, copies and allocations are traced, too. A CPU's allocations are not:
    only those since the profiler's start would count, and the weights are older. All threads are traced, for one
    of them may make the input.
    """

    format = CHROME

    def __init__(self) -> None:
        self._profile: Any = None
        self._folder = Path()

    def start(self, folder: Path) -> None:
        import torch
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        cuda = torch.cuda.is_available()
        self._folder = folder
        self._profile = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])],
            profile_memory=cuda,
            experimental_config=_ExperimentalConfig(profile_all_threads=True),
        )
        self._profile.start()

    def stop(self) -> None:
        profile, self._profile = self._profile, None
        profile.stop()
        # Kineto leaves a half-written file where the disk is full, and raises nothing.
        with TemporaryDirectory(dir=self._folder) as scratch:
            raw = Path(scratch, "trace.json")
            profile.export_chrome_trace(str(raw))
            chrome.finish(raw, self._folder / chrome.FILES.replace("*", f"{HOST}.{time_ns()}"))

    def forget_host(self, file: Path) -> None:
        """Leave the file as it is: it was written without the host's name."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        from torch.profiler import record_function

        found: AbstractContextManager[Any] = record_function(f"ProfilerStep#{number}")
        return found

    def mark(self, name: str) -> AbstractContextManager[Any]:
        from torch.profiler import record_function

        found: AbstractContextManager[Any] = record_function(name)
        return found


def forget_jax_session() -> None:
    """Let JAX start its profiler again: where stopping fails it keeps the ended session, and refuses every later one.

    JAX has no public way to do it (jax/_src/profiler.py: `stop_trace` resets its state only when all went well).
    """
    with suppress(ImportError, AttributeError):
        from jax._src.profiler import _profile_state

        _profile_state.reset()


FRAMEWORKS: dict[str, type[Framework]] = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}
"""The profiler of each backend."""
