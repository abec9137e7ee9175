"""Result of a pair: B's speed relative to A's at each point, and the verdict. Stored in `pair.json`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from accelbench.compare.change import SpeedVerdict
from accelbench.execution.stored_file import opened, parse
from accelbench.output.format import percent
from accelbench.pair.paired import LEAST_PAIRS, half_width, speed_ratio
from accelbench.profiling.analysis.cost import cost
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.timing.statistics import Estimate

PairVerdict = Literal[SpeedVerdict, "not measured"]
RESULT = "pair.json"
MAX_BYTES = 64 << 20
"""Maximum size of `pair.json` in bytes."""


class SideResult(Stored):
    """Side of a pair, as given on the command line."""

    word: str
    """Interpreter, environment or image; `.` for the Python that ran the command."""
    settings: list[str]
    """Settings of this side, as given on the command line."""


class PointResult(Stored):
    """Result of one point that was measured on both sides."""

    point: str
    """Name of the point, without the axes that the sides' settings choose."""
    a: Point
    """Point on side A."""
    b: Point
    """Point on side B."""
    ratios: list[float]
    """B's speed relative to A's in each pair, in order of measurement."""
    figure_a: float | None
    """Median of A's results in these pairs, in `unit`; null without pairs."""
    figure_b: float | None
    """Median of B's results in these pairs, in `unit`; null without pairs."""
    unit: str
    """Unit of the results; of results in seconds, less is faster."""
    disturbed: int
    """Number of noisy measurements in these pairs."""
    speed: Estimate | None
    """B's speed relative to A's from all pairs, with the confidence of this look; null without pairs."""
    verdict: PairVerdict
    """Verdict for B compared with A."""
    reason: str | None
    """Reason for `inconclusive` or `not measured`; null for the other verdicts."""

    @property
    def loss(self) -> float:
        """Return the share of A's speed that B lost; 0 unless B is significantly slower."""
        return 1 - self.speed.value if self.verdict == "slower" and self.speed else 0.0


class PairResult(Stored):
    """Contents of `pair.json`: the sides, the settings and the results."""

    created: datetime
    """Start time, with its time zone."""
    command: list[str]
    """Command line as a list of arguments."""
    status: Literal["finished", "interrupted"]
    """`finished` (at the requested width or the time limit), or `interrupted` by the user."""
    a: SideResult
    """Side A; its records are in the directory `A`."""
    b: SideResult
    """Side B; its records are in the directory `B`."""
    within: float
    """Requested half width of the intervals, as a share of the ratio."""
    wall_s: float
    """Total wall time in seconds."""
    points: list[PointResult]
    """Points that both sides have."""
    only_a: list[str]
    """Names of the points that only side A has."""
    only_b: list[str]
    """Names of the points that only side B has."""


def read_pair(path: Path) -> PairResult:
    """Return the result stored in a `pair.json`; raise `DataDamaged` if it cannot be read."""
    with opened(path, MAX_BYTES) as file:
        return parse(PairResult, file.read(MAX_BYTES), str(path), versioned=False)


def ratio_of(a: Record, b: Record) -> float:
    """Return B's speed relative to A's in one pair; raise ValueError with the reason if they cannot be compared.

    The speed is the rate of work, or the inverse of the time if the work is unknown. Host-timed measurements are
    compared by their fastest samples (`accelbench.profiling.analysis.cost`).
    """
    if a.figure != b.figure or a.unit != b.unit:
        raise ValueError(f"A is measured in {a.unit} ({a.figure}) and B in {b.unit} ({b.figure})")
    of_a, of_b = cost(a), cost(b)
    if of_a is None or of_b is None:
        of_a, of_b = cost(a, "time"), cost(b, "time")
    if of_a is None or of_b is None:
        raise ValueError("a measurement has no usable samples")
    return of_a / of_b


def shown_result(record: Record) -> tuple[float, str]:
    """Return the result of a measured record and its unit: the rate, or the seconds if the work is unknown."""
    rate = record.rate()
    if rate is not None:
        return rate, record.unit
    assert record.timing is not None
    return record.timing.summary.median, "s"


def judge_pairs(ratios: list[float], within: float, ended: str) -> tuple[Estimate | None, PairVerdict, str | None]:
    """Return B's speed relative to A's, the verdict, and the reason if it is inconclusive.

    `faster` or `slower`: the interval excludes 1. `same`: it includes 1 and has the requested width. `ended` is the
    reason why measuring ended, as text.
    """
    if not ratios:
        return None, "inconclusive", f"no pair: {ended}"
    speed = speed_ratio(ratios)
    if len(ratios) < LEAST_PAIRS:
        return speed, "inconclusive", f"too few pairs ({len(ratios)} of at least {LEAST_PAIRS}): {ended}"
    if speed.high < 1:
        return speed, "slower", None
    if speed.low > 1:
        return speed, "faster", None
    if half_width(speed) <= within:
        return speed, "same", None
    wide = f"±{percent(half_width(speed))} is wider than the requested ±{percent(within)}"
    return speed, "inconclusive", f"{wide}: {ended}"


def farthest(speed: Estimate) -> float:
    """Return the largest relative difference of the speeds within the interval."""
    return max(1 - speed.low, speed.high - 1)
