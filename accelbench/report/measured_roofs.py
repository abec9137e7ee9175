"""A roofline as data: the points of one device in one run, and the roofs that the same run measured over them.

A point is a benchmark on one device whose flops and bytes are both known; the roofs are those of that whole device. A
ceiling in doubt is no roof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelbench.profiling.analysis.roofline import Ceiling
from accelbench.report.rows import Row


class RooflinePoint(NamedTuple):
    """Point of a roofline."""

    row: Row
    intensity: float
    """The FLOP per byte that must move."""
    rate: float
    """The attained FLOP/s."""


@dataclass(frozen=True)
class Roofline:
    """The points of one device in one run under the roofs of that run; rates are in FLOP/s and byte/s."""

    place: str
    """The name of the device or, of several runs, of the run."""
    dots: tuple[RooflinePoint, ...]
    compute: Mapping[str, float]
    """The measured roof of arithmetic in each dtype."""
    memory: float | None
    """The measured roof of memory traffic; None where there is none."""
    peaks: Mapping[str, float]
    """The vendor's known peaks of arithmetic in the dtypes that are drawn."""
    bandwidth: float | None
    """The vendor's peak of memory traffic; None where it is not known."""

    @property
    def dtypes(self) -> list[str]:
        """Return the dtypes of the roofs, then those of the points that have no roof."""
        found = (dot.row.record.bound.dtype for dot in self.dots)
        return list(dict.fromkeys([*self.compute, *(dtype for dtype in found if dtype is not None)]))


def make_roofline(place: str, rows: Sequence[Row], ceilings: Sequence[Ceiling]) -> Roofline | None:
    """Return the roofline of the rows of one device under the ceilings of that device in the same run.

    None where there is no point to draw, or no roof over it.
    """
    rows = [row for row in rows if row.record.layout.computing_devices == 1]
    dots = tuple(
        RooflinePoint(row, intensity, rate)
        for row in rows
        if row.record.bound.cores == "all" and (intensity := row.intensity) and (rate := row.record.rate("flops"))
    )
    roofs = [ceiling for ceiling in ceilings if ceiling.cores == "all" and not ceiling.doubt]
    memory = next((roof.value for roof in roofs if roof.figure == "bytes"), None)
    compute = {roof.dtype: roof.value for roof in roofs if roof.dtype is not None}
    if not dots or (memory is None and not compute):
        return None
    known = [(row.of_peak.figure, str(row.record.bound.dtype), row.of_peak.bound) for row in rows]
    bare = Roofline(place, dots, compute, memory, {}, None)
    peaks = {dtype: bound for figure, dtype, bound in known if figure == "flops" and bound and dtype in bare.dtypes}
    bandwidth = next((bound for figure, _, bound in known if figure == "bytes"), None)
    return Roofline(place, dots, compute, memory, peaks, bandwidth)
