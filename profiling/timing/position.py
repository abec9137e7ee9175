"""Training progress, published in a shared-memory page for the parent process.

A step costs one write to memory: no message, thread or system call disturbs the measurement.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from mmap import mmap
from typing import Any, NamedTuple

BYTES = 4 * 8  # four numbers of 64 bits


class Position(NamedTuple):
    """The epoch and the step that a training is at; a reader may meet one of them a moment before the other."""

    epoch: int
    """The number of the epoch, from 1."""
    epochs: int
    """The number of epochs of all trainings that the measurement is made of."""
    step: int
    """The number of steps of this epoch that are over."""
    steps: int
    """The number of steps of an epoch; 0 where it is not known yet."""


STEP = Position._fields.index("step")


class Page:
    """A page of memory with a position; where none is in it, no training is under way."""

    def __init__(self, descriptor: int = -1) -> None:
        """Map the page of that descriptor; without one it is seen by this process alone."""
        self.descriptor = descriptor
        self._numbers = memoryview(mmap(descriptor, BYTES)).cast("q")

    @classmethod
    def shared(cls) -> Page:
        """Return a new page for another process, which is given its descriptor; OSError where the system has none."""
        descriptor = os.memfd_create("accelbench")
        os.ftruncate(descriptor, BYTES)
        return cls(descriptor)

    def write(self, position: Position) -> None:
        for place, number in enumerate(position):
            self._numbers[place] = number

    def step(self, done: int) -> None:
        """Write how many steps of the epoch are over."""
        self._numbers[STEP] = done

    def clear(self) -> None:
        self.write(Position(0, 0, 0, 0))

    def read(self) -> Position | None:
        found = Position(*self._numbers)
        return found if found.epoch else None

    def close(self) -> None:
        """Let go of the descriptor; the page itself goes with the last who maps it."""
        os.close(self.descriptor)


def showing(trainings: int) -> Any:
    """Return a Keras callback that writes the progress of consecutive training runs to this process's page.

    It follows the clock of the steps, so that its write counts as part of the next step.
    """
    import keras

    to = page()

    class PositionCallback(keras.callbacks.Callback):  # type: ignore[misc]
        begun = 0

        def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            self.begun += 1
            # The number of steps is None where Keras finds it out in the first epoch.
            to.write(Position(self.begun, self.params["epochs"] * trainings, 0, self.params["steps"] or 0))

        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            to.step(batch + 1)

    return PositionCallback()


_PAGE = [Page()]


def page() -> Page:
    """Return the page that this process writes to; one that nobody else sees, unless it was given another."""
    return _PAGE[0]


def show_in(descriptor: int) -> None:
    """Write to the page of this descriptor from now on."""
    _PAGE[0] = Page(descriptor)
