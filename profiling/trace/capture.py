"""Capture of a window of training steps with the framework's own profiler.

On a GPU the profiler records all kernels of the process through CUPTI. A failure of the profiler never fails the
training run; it is part of the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from accelbench.profiling.records.trace import Capture
from accelbench.profiling.trace.framework_profiler import Profiler
from accelbench.profiling.trace.parts import EPOCH, STEP_END

STEPS = 10
"""Number of steps in a window; each step has some thousand events."""


class TraceWindow:
    """Trace of the steps `first_step` … `first_step + steps - 1` of the training in a `with` block.

    The profiler starts at the end of the step before, so `first_step` must be at least 1: a step lasts from the end of
    the previous one and includes the callbacks at its start.
    """

    def __init__(self, folder: Path, backend: str, first_step: int, steps: int = STEPS) -> None:
        self._profiler = Profiler(folder, backend)
        self._first, self._last = first_step, first_step + steps - 1
        self._step = 0
        self._marker = ExitStack()
        self._traced: list[int] = []

    def __enter__(self) -> TraceWindow:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Keras does not call its callbacks when a training fails.
        self._marker.close()
        self._profiler.stop()

    def callback(self) -> Any:
        """Return a Keras callback; pass it last, so that the other callbacks' work after a step is part of the step."""
        import keras

        window = self

        class TraceCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                window.begin_epoch()

            def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
                window.begin_step()

            def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
                window.end_step()

        return TraceCallback()

    def begin_epoch(self) -> None:
        self._profiler.mark(EPOCH)

    def begin_step(self) -> None:
        if self._profiler.running:
            self._marker.enter_context(self._profiler.step(self._step))

    def end_step(self) -> None:
        self._marker.close()
        if self._profiler.running:
            self._traced.append(self._step)
        if self._step == self._last:
            self._profiler.stop()
        self._step += 1
        if self._step == self._first:
            self._profiler.start()
            self._profiler.mark(STEP_END)

    def is_past(self) -> bool:
        """Return whether the window and the step after it, which the profiler's end disturbs, are over."""
        return self._step > self._last + 1

    def disturbed(self) -> frozenset[int]:
        """Return the steps whose times are not samples: the traced steps and the next one, in which the profiler ends.

        If the profiler failed to start, it is the step of the attempt.
        """
        end = self._last + 2 if self._traced else self._first + 1
        return frozenset(range(self._first, min(end, self._step)))

    def outcome(self) -> Capture:
        """Return the outcome of the capture; call it after the block."""
        profiler = self._profiler
        file = profiler.file()
        reason = profiler.reason
        if self._step <= self._first:
            file = None
            reason = (
                f"the training ended after {self._step} steps, before the first traced step (step {self._first + 1})"
            )
        return Capture(
            file=file,
            reason=reason,
            first_step=self._first if file else None,
            steps=len(self._traced) if file else 0,
            disturbed=sorted(self.disturbed()),
            start_s=profiler.start_s,
            stop_s=profiler.stop_s,
        )
