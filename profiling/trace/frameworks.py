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
from accelbench.profiling.trace.lines import Unreadable
from accelbench.profiling.trace.parts import STEP


class Framework(Protocol):
    """Interface of a framework's profiler; exceptions of the framework are raised."""

    format: TraceFormat

    def start(self, folder: Path) -> None:
        """Start the profiler, for a trace in the folder."""

    def stop(self) -> None:
        """Stop the profiler and write the trace."""

    def remove_host(self, file: Path) -> None:
        """Remove the host's name from the written file."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        """Return a context manager that marks one step in the trace."""

    def mark(self, name: str) -> AbstractContextManager[Any]:
        """Return a context manager that adds an event with this name to the trace."""


class TensorFlow:
    """Profiler of TensorFlow; it uses CUPTI on a GPU."""

    format = XPLANE

    def start(self, folder: Path) -> None:
        import tensorflow as tf

        tf.profiler.experimental.start(str(folder))

    def stop(self) -> None:
        import tensorflow as tf

        tf.profiler.experimental.stop()

    def remove_host(self, file: Path) -> None:
        xplane.remove_host(file)

    def step(self, number: int) -> AbstractContextManager[Any]:
        import tensorflow as tf

        # _r=1 marks the event as a step; tools need it for step times.
        found: AbstractContextManager[Any] = tf.profiler.experimental.Trace(STEP, step_num=number, _r=1)
        return found

    def mark(self, name: str) -> AbstractContextManager[Any]:
        import tensorflow as tf

        found: AbstractContextManager[Any] = tf.profiler.experimental.Trace(name)
        return found


class Jax:
    """Profiler of JAX, which also traces Python functions, such as the one in which Keras's trainer waits for input."""

    format = XPLANE

    def start(self, folder: Path) -> None:
        import jax

        jax.profiler.start_trace(str(folder))

    def stop(self) -> None:
        import jax

        try:
            jax.profiler.stop_trace()
        except BaseException:
            reset_jax_profiler()
            raise

    def remove_host(self, file: Path) -> None:
        xplane.remove_host(file)

    def step(self, number: int) -> AbstractContextManager[Any]:
        import jax

        found: AbstractContextManager[Any] = jax.profiler.StepTraceAnnotation(STEP, step_num=number)
        return found

    def mark(self, name: str) -> AbstractContextManager[Any]:
        import jax

        found: AbstractContextManager[Any] = jax.profiler.TraceAnnotation(name)
        return found


class Torch:
    """Profiler of PyTorch (Kineto), without Python stacks, which would multiply the number of events by ten.

    On a CUDA device, kernels, copies and allocations are traced, too. A CPU's allocations are not traced, because they
    would not include the weights, which are older than the trace. All threads are traced, including those that
    prepare input.
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
        name = f"{HOST}.{time_ns()}"
        # On a full disk, Kineto leaves a partial file and raises nothing.
        with TemporaryDirectory(dir=self._folder) as scratch:
            raw = Path(scratch, f"{name}.json")
            profile.export_chrome_trace(str(raw))
            try:
                chrome.finish(raw, self._folder / chrome.FILES.replace("*", name))
            except Unreadable:
                if raw.exists():  # invalid, but complete
                    raw.rename(self._folder / raw.name)
                raise

    def remove_host(self, file: Path) -> None:
        """Do nothing: the file was written without the host's name."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        from torch.profiler import record_function

        found: AbstractContextManager[Any] = record_function(f"ProfilerStep#{number}")
        return found

    def mark(self, name: str) -> AbstractContextManager[Any]:
        from torch.profiler import record_function

        found: AbstractContextManager[Any] = record_function(name)
        return found


def reset_jax_profiler() -> None:
    """Reset JAX's profiler after a failed stop, which would otherwise block every later start.

    JAX has no public function for it (jax/_src/profiler.py: `stop_trace` resets its state only on success).
    """
    with suppress(ImportError, AttributeError):
        from jax._src.profiler import _profile_state

        _profile_state.reset()


FRAMEWORKS: dict[str, type[Framework]] = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}
"""Profilers by backend."""
