"""Messages between the soak and the processes of its units."""

from __future__ import annotations

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.stored import Count, Seconds, Stored


class UnitJob(Stored):
    """Job of a process: what it runs on one logical CPU or GPU."""

    points: list[Point]
    processes: int
    """Number of processes that share the memory of the device."""
    window_s: Seconds
    """Seconds in which all points run once, and after which the process reports."""
    flip: int | None = None
    """Seed of an injected error: one flipped bit in the result of one pass, to test the check; None for no error."""


class UnitReady(Stored):
    """End of the preparation: all points were executed once and verified."""

    points: dict[str, str] = {}
    """Points that run, each with the unit of its throughput."""
    skipped: dict[str, str] = {}
    """Reason of each point that this device or its memory cannot run."""


class PointWindow(Stored):
    """Passes of a point in a window."""

    passes: Count
    work: float
    """Work of these passes: flops, bytes, or items."""
    seconds: Seconds
    """Time of these passes without their checks."""


class UnitWindow(Stored):
    """Passes of all points in a window."""

    number: Count
    """Number of the window, from 0."""
    points: dict[str, PointWindow]
    """Passes by point."""
    wrong_passes: Count
    """Number of wrong results so far."""


class WrongResult(Stored):
    """Wrong result of one pass."""

    unit: str
    """Logical CPU or GPU that computed it: `CPU 3`, `GPU 0`."""
    point: str
    """Name of the benchmark's point."""
    at_s: Seconds
    """Time since the start of the load in seconds; 0 for a wrong result of the first execution."""
    number: Count
    """Number of the pass on this unit, from 1; 0 for the first execution."""
    cpu: int | None = None
    """Logical CPU on which the process ran after the pass; null if unknown."""
    array: Count | None = None
    """Number of the wrong array of the result, from 0; null if the benchmark's verification found the error."""
    element: Count | None = None
    """Flat index of the first wrong element."""
    elements: Count | None = None
    """Number of wrong elements."""
    first_byte: Count | None = None
    """Offset in the array of the first byte of the first wrong element."""
    last_byte: Count | None = None
    """Offset in the array of the last byte of the last wrong element."""
    bytes: Count | None = None
    """Size of the array in bytes."""
    expected: str
    """Bits of the first wrong element as a hexadecimal number, or the expected answer."""
    found: str
    """Bits that were found, or the answer."""
    flipped: Count | None = None
    """Number of wrong bits of the first wrong element."""
    injected: bool = False
    """Whether the error was injected by `--inject-error`."""

    @property
    def sentence(self) -> str:
        """Return the finding as text."""
        when = f"{self.unit}, {self.point}, pass {self.number:,} after {self.at_s:.1f} s"
        where = ""
        if self.element is not None:
            where = f": element {self.element:,} (bytes {self.first_byte:,}–{self.last_byte:,} of {self.bytes:,})"
            if self.elements != 1:
                where += f", {self.elements:,} elements in this range"
        injected = " (injected)" if self.injected else ""
        return f"{when}{where}: {self.found}, expected {self.expected}{injected}"
