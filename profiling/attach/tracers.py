"""Trace of some steps by the profiler of the script's framework."""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG_LEVEL = "KINETO_LOG_LEVEL"
STEP = "train"
"""Name of the step markers in the traces of TensorFlow and JAX."""


class Silence:
    """Context in which Kineto prints nothing to the script's stderr; the environment is restored afterwards."""

    def __enter__(self) -> None:
        self._before = os.environ.get(LOG_LEVEL)
        os.environ[LOG_LEVEL] = "99"

    def __exit__(self, *error: object) -> None:
        if self._before is None:
            del os.environ[LOG_LEVEL]
        else:
            os.environ[LOG_LEVEL] = self._before


class TorchTracer:
    """PyTorch's profiler."""

    def __init__(self, folder: str) -> None:
        import torch
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        cuda = torch.cuda.is_initialized()
        self.device = "gpu" if cuda else "cpu"
        self._folder = folder
        self._profile = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])],
            profile_memory=cuda,
            experimental_config=_ExperimentalConfig(profile_all_threads=True),
            acc_events=True,  # otherwise some versions of PyTorch warn on the script's stderr
        )
        with Silence():
            self._profile.start()

    def discard(self) -> None:
        with Silence():
            self._profile.stop()

    def stop(self) -> None:
        self.discard()
        self._profile.export_chrome_trace(os.path.join(self._folder, "raw.json"))

    def step(self, number: int) -> Any:
        from torch.profiler import record_function

        return record_function(f"ProfilerStep#{number}")


class TensorFlowTracer:
    """TensorFlow's profiler."""

    def __init__(self, folder: str) -> None:
        import tensorflow as tf

        self.device = "gpu" if tf.config.list_logical_devices("GPU") else "cpu"
        tf.profiler.experimental.start(folder)

    def discard(self) -> None:
        import tensorflow as tf

        tf.profiler.experimental.stop(save=False)

    def stop(self) -> None:
        import tensorflow as tf

        tf.profiler.experimental.stop()

    def step(self, number: int) -> Any:
        import tensorflow as tf

        return tf.profiler.experimental.Trace(STEP, step_num=number, _r=1)


class JaxTracer:
    """JAX's profiler."""

    def __init__(self, folder: str) -> None:
        import jax

        self.device = jax.default_backend()
        jax.profiler.start_trace(folder)

    def discard(self) -> None:
        self.stop()

    def stop(self) -> None:
        import jax

        jax.profiler.stop_trace()

    def step(self, number: int) -> Any:
        import jax

        return jax.profiler.StepTraceAnnotation(STEP, step_num=number)


TRACERS = {"torch": TorchTracer, "tensorflow": TensorFlowTracer, "jax": JaxTracer}


def imported_framework() -> str | None:
    """Return the framework that the script has imported; None if it has imported none."""
    return next((name for name in ("torch", "jax", "tensorflow") if name in sys.modules), None)


class StepTrace:
    """Trace of a number of steps, from the end of one step to the end of the last; errors are in `reason`."""

    def __init__(self, framework: str | None, steps: int, folder: str) -> None:
        self._steps, self._number = steps, 0
        self._tracer: Any = None
        self._marker: Any = None
        self.device = "cpu"
        self.reason: str | None = None
        framework = framework or imported_framework()
        if framework is None:
            self.reason = "the script has imported no framework with a profiler"
            return
        try:
            self._tracer = TRACERS[framework](folder)
            atexit.register(self._discard)
            self.device = self._tracer.device
            self._mark()
        except Exception as error:  # noqa: BLE001 - frameworks raise various exceptions; none may end the script
            self._fail(framework, "start", error)

    def step_ended(self) -> bool:
        """Mark the end of a step; return whether it was the last one."""
        if self._tracer is None:
            return True
        try:
            marker, self._marker = self._marker, None
            if marker is not None:
                marker.__exit__(None, None, None)
            self._number += 1
            if self._number < self._steps:
                self._mark()
                return False
            atexit.unregister(self._discard)
            self._tracer.stop()
        except Exception as error:  # noqa: BLE001 - see above
            self._fail("framework", "stop", error)
        return True

    def _discard(self) -> None:
        """Stop the profiler if the script ends meanwhile; PyTorch's would crash the process while it exits."""
        try:
            self._tracer.discard()
        except Exception as error:  # noqa: BLE001 - see above
            self._fail("framework", "stop", error)

    def _mark(self) -> None:
        self._marker = self._tracer.step(self._number)
        self._marker.__enter__()

    def _fail(self, framework: str, what: str, error: Exception) -> None:
        self._tracer = None
        self.reason = f"the profiler of the {framework} did not {what}: {type(error).__name__}: {error}"
