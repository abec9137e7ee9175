"""A trace as its readers see it, whatever its format: lines of events, each a thread or a stream.

A format's planes, lines and names of events are put into the words that `parts` knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Unreadable(Exception):
    """The file is no whole trace; the message says why."""


class TraceLine(Protocol):
    """The events of one thread or stream."""

    @property
    def plane(self) -> str:
        """Return the host or the device that it is of."""

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> list[str]:
        """Return the names of what can happen on it."""

    @property
    def kinds(self) -> Integers:
        """Return the place in `names` of each event's name."""

    def span(self, chosen: NDArray[np.bool_]) -> tuple[Integers, Integers]:
        """Return when each of the chosen events began and ended, in picoseconds on the clock that all lines share."""


class Trace(Protocol):
    """One file."""

    @property
    def size(self) -> int:
        """Return the size of the file, in bytes."""

    @property
    def errors(self) -> list[str]:
        """Return the profiler's own complaints, CUPTI's refusals among them."""

    @property
    def planes(self) -> list[str]:
        """Return the names of the hosts and devices that it is of."""

    @property
    def memory_peak_bytes(self) -> int | None:
        """Return the most bytes that a device's allocator had given out; None where the raw events do not say."""

    def lines(self) -> Iterator[TraceLine]:
        """Yield every line of every plane, the devices' first."""
