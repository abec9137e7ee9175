"""The record of the CPUs that a point was measured on."""

from __future__ import annotations

from accelbench.profiling.records.stored import Stored


class Placement(Stored):
    """The logical CPUs of the thread that measured a point: two of one machine may differ in speed."""

    first: int | None = None
    """The number of the CPU that the thread was on when measuring began; null where the system does not tell."""
    last: int | None = None
    """The number of the CPU that the thread was on when measuring ended; null where the system does not tell."""
    allowed: list[int] | None = None
    """The numbers of the CPUs that the thread could be on meanwhile; null where the system does not tell."""
    pinned: bool = False
    """Whether the thread was kept to one CPU, as the threads of points that work on one core are."""
    left_out: list[int] = []
    """The numbers of the CPUs that the run may use and this point was kept from."""
    left_out_because: str | None = None
    """Why they were left out; null where none was."""
