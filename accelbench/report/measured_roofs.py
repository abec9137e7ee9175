"""Roofline data: the points of one device in one run, and the roofs measured in the same run.

Points are results with known flops and bytes on one whole device (all cores).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from accelbench.profiling.analysis.roofline import Ceiling
from accelbench.report.rows import Row


class RooflinePoint(NamedTuple):
    """Point of a roofline."""

    row: Row
    intensity: float
    """Arithmetic intensity in FLOP per byte of required traffic."""
    rate: float
    """Attained FLOP/s."""


@dataclass(frozen=True)
class Roofline:
    """Points and roofs of one device in one run; rates in FLOP/s and byte/s."""

    place: str
    """Label of the device, or of the run if there are several."""
    dots: tuple[RooflinePoint, ...]
    compute: Mapping[str, float]
    """Measured compute roof by dtype."""
    memory: float | None
    """Measured memory roof; None if unknown."""
    peaks: Mapping[str, float]
    """Vendor's known compute peaks by dtype."""
    bandwidth: float | None
    """Vendor's peak memory bandwidth; None if unknown."""
    doubtful: frozenset[str | None] = frozenset()
    """Dtypes of the noisy compute roofs, and None for a noisy memory roof."""

    @property
    def dtypes(self) -> list[str]:
        """Return the dtypes of the roofs, then the dtypes of points without a roof."""
        found = (dot.row.record.bound.dtype for dot in self.dots)
        return list(dict.fromkeys([*self.compute, *(dtype for dtype in found if dtype is not None)]))


def make_roofline(place: str, rows: Sequence[Row], ceilings: Sequence[Ceiling]) -> Roofline | None:
    """Return the roofline of one device's rows and ceilings from one run; None without points or without roofs."""
    rows = [row for row in rows if row.record.layout.computing_devices == 1]
    dots = tuple(
        RooflinePoint(row, intensity, rate)
        for row in rows
        if row.record.bound.cores == "all" and (intensity := row.intensity) and (rate := row.record.rate("flops"))
    )
    roofs = [ceiling for ceiling in ceilings if ceiling.cores == "all"]
    memory = next((roof.value for roof in roofs if roof.metric == "bytes"), None)
    compute = {roof.dtype: roof.value for roof in roofs if roof.dtype is not None}
    if not dots or (memory is None and not compute):
        return None
    known = [(row.of_peak.metric, str(row.record.bound.dtype), row.of_peak.bound) for row in rows]
    bare = Roofline(place, dots, compute, memory, {}, None, frozenset(roof.dtype for roof in roofs if roof.doubt))
    peaks = {dtype: bound for metric, dtype, bound in known if metric == "flops" and bound and dtype in bare.dtypes}
    bandwidth = next((bound for metric, _, bound in known if metric == "bytes"), None)
    return replace(bare, peaks=peaks, bandwidth=bandwidth)
