"""Training progress, published in a shared-memory page for the parent process.

Each step costs one write to memory, without a message, thread or system call that could disturb the measurement.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from mmap import mmap
from typing import Any, NamedTuple

BYTES = 4 * 8  # four numbers of 64 bits


class Position(NamedTuple):
    """Current epoch and step of a training run; a concurrent reader may see one updated before the other."""

    epoch: int
    """The number of the epoch, from 1."""
    epochs: int
    """The total number of epochs of all training runs of the measurement."""
    step: int
    """The number of completed steps of the epoch."""
    steps: int
    """The number of steps per epoch; 0 if not known yet."""


STEP = Position._fields.index("step")


class Page:
    """Memory page that holds a position, or none outside a training run."""

    def __init__(self, descriptor: int = -1) -> None:
        """Map the page of a descriptor; by default, a private page of this process."""
        self.descriptor = descriptor
        self._numbers = memoryview(mmap(descriptor, BYTES)).cast("q")

    @classmethod
    def shared(cls) -> Page:
        """Return a new page that another process can map by its descriptor. Raises OSError if the system refuses it."""
        descriptor = os.memfd_create("accelbench")
        os.ftruncate(descriptor, BYTES)
        return cls(descriptor)

    def write(self, position: Position) -> None:
        for place, number in enumerate(position):
            self._numbers[place] = number

    def step(self, done: int) -> None:
        """Write the number of completed steps of the epoch."""
        self._numbers[STEP] = done

    def clear(self) -> None:
        self.write(Position(0, 0, 0, 0))

    def read(self) -> Position | None:
        found = Position(*self._numbers)
        return found if found.epoch else None

    def close(self) -> None:
        """Close the descriptor; the page is freed when no process maps it any more."""
        os.close(self.descriptor)


def progress_callback(trainings: int) -> Any:
    """Return a Keras callback that writes the progress of consecutive training runs to this process's page.

    It is called after the step clock, so that its write counts as part of the next step.
    """
    import keras

    to = page()

    class PositionCallback(keras.callbacks.Callback):  # type: ignore[misc]
        begun = 0

        def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            self.begun += 1
            # The number of steps is None if Keras determines it during the first epoch.
            to.write(Position(self.begun, self.params["epochs"] * trainings, 0, self.params["steps"] or 0))

        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            to.step(batch + 1)

    return PositionCallback()


_PAGE = [Page()]


def page() -> Page:
    """Return the page that this process writes to: a private one, unless `use_page` was called."""
    return _PAGE[0]


def use_page(descriptor: int) -> None:
    """Make this process write to the page of a descriptor."""
    _PAGE[0] = Page(descriptor)
