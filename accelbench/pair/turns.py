"""The measuring: both sides in turns, block by block, each point until its interval is narrow or the time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

from accelbench.output.format import percent
from accelbench.pair.paired import LOOKS, Letter, TimedPair, half_width, pairs_of, speed_ratio
from accelbench.pair.result import PointResult, judge_pairs, ratio_of, shown_figure
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.telemetry.noise import crowded_out
from accelbench.profiling.timing.statistics import Estimate

CROWDED = 0.2
"""The share from which on the system, and not the code, decides how long an execution takes.

Beside a load on one of two cores, a product on both took 48 or 56 ms, whole slices of the scheduler, with 3 % more work
or without: of 26 pairs, B with more of it came out as 8 % faster. Its threads waited half of the time; those of points
on one core 2 %, and their ratios were right.
"""
CROWDED_OUT = "other processes kept its threads from a CPU for {} of the time: end them, or give it CPUs of its own"
MeasureSide = Callable[[Letter, Point], Record]
"""The function that measures a point of a side."""


@dataclass
class PairSeries:
    """Pairs of one point measured so far, and the reason why its measuring ended."""

    name: str
    points: dict[Letter, Point]
    ratios: list[float] = field(default_factory=list)
    figures: dict[Letter, list[float]] = field(default_factory=lambda: {"A": [], "B": []})
    unit: str = ""
    disturbed: int = 0
    crowded: list[float] = field(default_factory=list)
    """The share of each measurement in which its threads waited for others to leave a CPU."""
    ended: str | None = None
    """What ended the measuring of this point, in words; None while it goes on."""
    trouble: str | None = None
    """The reason why the point was not measured, as one side failed or was skipped."""
    block_s: float = 0.0
    """The seconds that a block takes, by the last one; at first those of one pair, which has compiled what it needs."""

    def add(self, a: Record, b: Record, ratio: float) -> None:
        """Take in a pair."""
        self.ratios.append(ratio)
        for record, figures in ((a, self.figures["A"]), (b, self.figures["B"])):
            figure, self.unit = shown_figure(record)
            figures.append(figure)
            self.disturbed += bool(record.noise)
            self.crowded.append(crowded_out(record.telemetry) if record.telemetry else 0.0)

    def look(self) -> Estimate | None:
        """Return the interval where it is to be looked at after so many pairs; None between the looks."""
        return speed_ratio(self.ratios) if len(self.ratios) in LOOKS else None

    def result(self, within: float) -> PointResult:
        """Return what the pairs so far say."""
        speed, verdict, reason = judge_pairs(self.ratios, within, self.ended or "it was interrupted")
        if self.trouble:
            verdict, reason = "not measured", self.trouble
        elif self.crowded and (share := median(self.crowded)) >= CROWDED:
            verdict, reason = "cannot tell", CROWDED_OUT.format(percent(share))
        return PointResult(
            point=self.name,
            a=self.points["A"],
            b=self.points["B"],
            ratios=self.ratios,
            figure_a=median(self.figures["A"]) if self.ratios else None,
            figure_b=median(self.figures["B"]) if self.ratios else None,
            unit=self.unit,
            disturbed=self.disturbed,
            speed=speed,
            verdict=verdict,
            reason=reason,
        )


class SideFailure(Exception):
    """A failed measurement on one side, or two results that cannot be compared."""


def take_turns(
    courses: Sequence[PairSeries],
    measure: MeasureSide,
    within: float,
    deadline: float,
    tell: Callable[[PairSeries], None],
) -> None:
    """Measure the points in turns, a block of each after the other, until all have ended.

    The first measurement of each side is not counted: it pays for cold caches on the disk and for compiling what is
    kept. No block is begun that would end after `deadline`, a moment of `time.monotonic`. `tell` is called as a point
    was tried, at each look at it, and when it ends.
    """
    for course in courses:
        with _block_of(course):
            _pair(course, measure, ("A", "B"))
        tell(course)
    block = 0
    while left := [course for course in courses if course.ended is None]:
        for course in left:
            if monotonic() + course.block_s > deadline:
                course.ended = "the time limit ended it"
                tell(course)
                continue
            with _block_of(course):
                for order in pairs_of(block):
                    course.add(*_pair(course, measure, order))
            found = course.look()
            if found and half_width(found) <= within:
                course.ended = "it is as narrow as was asked for"
            elif len(course.ratios) >= LOOKS[-1]:
                course.ended = f"it ends after {LOOKS[-1]} pairs"
            if found or course.ended:
                tell(course)
        block += 1


@contextmanager
def _block_of(course: PairSeries) -> Iterator[None]:
    """Time a block of the point; a side that cannot measure ends the point there."""
    begin = monotonic()
    try:
        yield
    except SideFailure as trouble:
        course.trouble = course.ended = str(trouble)
    course.block_s = monotonic() - begin


def _pair(course: PairSeries, measure: MeasureSide, order: TimedPair) -> tuple[Record, Record, float]:
    """Measure both sides in that order, and return the records of A and B and the ratio of their speeds."""
    found = {letter: _measured(course, measure, letter) for letter in order}
    try:
        return found["A"], found["B"], ratio_of(found["A"], found["B"])
    except ValueError as error:
        raise SideFailure(str(error)) from None


def _measured(course: PairSeries, measure: MeasureSide, letter: Letter) -> Record:
    record = measure(letter, course.points[letter])
    if record.status != "measured":
        raise SideFailure(f"{letter} {record.status}: {record.reason}")
    return record
