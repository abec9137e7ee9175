"""Interface of a trace of any format: lines of events, each a thread or a stream.

Each reader maps the planes and event names of its format to the names in `parts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Unreadable(Exception):
    """Error for a file that is not a complete trace; the message is the reason."""


class TraceLine(Protocol):
    """Events of one thread or stream."""

    @property
    def plane(self) -> str:
        """Return the name of the host or device."""

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> list[str]:
        """Return the distinct names of events."""

    @property
    def kinds(self) -> Integers:
        """Return the index into `names` of each event."""

    def span(self, chosen: NDArray[np.bool_]) -> tuple[Integers, Integers]:
        """Return begin and end of the chosen events, in picoseconds on the clock of the trace."""


class Trace(Protocol):
    """A trace file."""

    @property
    def size(self) -> int:
        """Return the size of the file, in bytes."""

    @property
    def errors(self) -> list[str]:
        """Return the errors reported by the profiler, including CUPTI's."""

    @property
    def planes(self) -> list[str]:
        """Return the names of the traced hosts and devices."""

    @property
    def memory_peak_bytes(self) -> int | None:
        """Return the peak of allocated device memory in bytes; None if the raw events lack it."""

    def lines(self) -> Iterator[TraceLine]:
        """Yield all lines of all planes, those of devices first."""
