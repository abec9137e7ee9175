"""What the pairs of two sides say: the speed of B over that of A at each point, and the verdict; `pair.json`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from accelbench.compare.change import SpeedVerdict
from accelbench.output.format import percent
from accelbench.pair.paired import LEAST_PAIRS, half_width, speed_ratio
from accelbench.profiling.analysis.cost import cost
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.timing.statistics import Estimate

PairVerdict = Literal[SpeedVerdict, "not measured"]


class SideResult(Stored):
    """One side of a pair, as the user named it."""

    word: str
    """The interpreter, environment or image; `.` for the Python that ran the command."""
    settings: list[str]
    """The settings of this side, as they were written."""


class PointResult(Stored):
    """One point, measured on both sides in turns."""

    point: str
    """The name of the point, without what the sides' settings choose."""
    a: Point
    """The point as side A measured it."""
    b: Point
    """The point as side B measured it."""
    ratios: list[float]
    """The speed of B over the speed of A of each pair, in the order in which they were measured."""
    figure_a: float | None
    """The median of A's figures in these pairs, in `unit`; null where there is no pair."""
    figure_b: float | None
    """The median of B's figures in these pairs, in `unit`; null where there is no pair."""
    unit: str
    """The unit of the figures; of a figure in seconds, less is faster."""
    disturbed: int
    """The number of measurements of these pairs whose records carry flags of noise."""
    speed: Estimate | None
    """The speed of B over that of A from all pairs, with the confidence of this look; null where there is no pair."""
    verdict: PairVerdict
    """The answer for B against A."""
    reason: str | None
    """The reason why it cannot be told or was not measured; null where it can be told."""

    @property
    def loss(self) -> float:
        """Return the share of A's speed that B has lost beyond doubt; 0 where it is not slower beyond doubt."""
        return 1 - self.speed.value if self.verdict == "slower" and self.speed else 0.0


class PairResult(Stored):
    """`pair.json`: what was compared, how, and what was found."""

    created: datetime
    """The moment at which it was begun, with its time zone."""
    command: list[str]
    """The command line, word by word."""
    status: Literal["finished", "interrupted"]
    """Whether it ended by itself, by its width or its time limit, or was ended early."""
    a: SideResult
    """Side A, whose records are in the folder `A`."""
    b: SideResult
    """Side B, whose records are in the folder `B`."""
    within: float
    """The wanted half width of the intervals, as a share of the ratio."""
    wall_s: float
    """The wall time of it all in seconds."""
    points: list[PointResult]
    """The points that both sides have."""
    only_a: list[str]
    """The names of the points that only side A has."""
    only_b: list[str]
    """The names of the points that only side B has."""


def ratio_of(a: Record, b: Record) -> float:
    """Return the speed of B over that of A in one pair; ValueError with the reason where they cannot be compared.

    Sides whose executions do different work are compared by their rates, and by the times where the work is unknown;
    by the fastest samples of what the host's clock has timed (`accelbench.profiling.analysis.cost`).
    """
    if a.figure != b.figure or a.unit != b.unit:
        raise ValueError(f"A is measured in {a.unit} ({a.figure}) and B in {b.unit} ({b.figure})")
    of_a, of_b = cost(a), cost(b)
    if of_a is None or of_b is None:
        of_a, of_b = cost(a, "time"), cost(b, "time")
    if of_a is None or of_b is None:
        raise ValueError("a measurement has no usable samples")
    return of_a / of_b


def shown_figure(record: Record) -> tuple[float, str]:
    """Return the figure of a measured record with its unit: its rate, or its seconds where the work is unknown."""
    rate = record.rate()
    if rate is not None:
        return rate, record.unit
    assert record.timing is not None
    return record.timing.summary.median, "s"


def judge_pairs(ratios: list[float], within: float, ended: str) -> tuple[Estimate | None, PairVerdict, str | None]:
    """Return the speed of B over that of A, the verdict, and the reason where it cannot be told.

    Faster or slower: the interval lies on one side of 1. The same: it holds 1 and is as narrow as was wanted. `ended`
    says in words what ended the measuring.
    """
    if not ratios:
        return None, "cannot tell", f"no pair: {ended}"
    speed = speed_ratio(ratios)
    if len(ratios) < LEAST_PAIRS:
        return speed, "cannot tell", f"{len(ratios)} pairs are too few, {LEAST_PAIRS} are needed: {ended}"
    if speed.high < 1:
        return speed, "slower", None
    if speed.low > 1:
        return speed, "faster", None
    if half_width(speed) <= within:
        return speed, "same", None
    wide = f"±{percent(half_width(speed))} is wider than the ±{percent(within)} asked for"
    return speed, "cannot tell", f"{wide}: {ended}"


def farthest(speed: Estimate) -> float:
    """Return the largest difference of the speeds that the interval holds, as a share."""
    return max(1 - speed.low, speed.high - 1)
