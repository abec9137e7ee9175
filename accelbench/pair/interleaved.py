"""Interleaved measurement of both sides, block by block, until each point's interval is narrow or time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

from accelbench.output.format import percent, seconds
from accelbench.pair.paired import LOOKS, Letter, TimedPair, half_width, pairs_of, speed_ratio
from accelbench.pair.result import PointResult, judge_pairs, ratio_of, shown_result
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.telemetry.noise import crowded_out
from accelbench.profiling.timing.statistics import Estimate

CROWDED = 0.2
"""Share of time spent waiting for a CPU; at or above it, times measure the scheduler and not the code.

It applies where the causes of the samples are unknown, since no clean sample contains a wait. Example: with a load on
one of two cores, a matrix product on both took 48 or 56 ms (whole scheduler slices) with and without 3 % more work; in
26 pairs, the side with more work came out 8 % faster. Its threads waited 50 % of the time. Threads of single-core
points waited 2 %, and their ratios were correct.
"""
CROWDED_OUT = "threads waited {} of the time for CPUs used by other processes: end these, or use other CPUs"
ONLY_BOUNDS = "{} of {} measurements are only bounds: {}"
MeasureSide = Callable[[Letter, Point], Record]
"""Function that measures a point of a side."""


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
    """Share of each measurement with unknown causes in which its threads waited for CPUs used by other processes."""
    bounds: list[str] = field(default_factory=list)
    """Reason of each measurement that is only a bound."""
    ended: str | None = None
    """Reason why measuring ended, as text; None while the point is being measured."""
    failure: str | None = None
    """Reason why the point was not measured: one side failed or was skipped."""
    block_s: float = 0.0
    """Seconds of the last block; before the first block, seconds of the uncounted pair, which includes compilation."""

    def add(self, a: Record, b: Record, ratio: float) -> None:
        """Add a pair."""
        self.ratios.append(ratio)
        for record, figures in ((a, self.figures["A"]), (b, self.figures["B"])):
            value, self.unit = shown_result(record)
            figures.append(value)
            self.disturbed += bool(record.noise)
            assert record.timing is not None
            if record.timing.upper_bound:
                self.bounds.append(record.timing.upper_bound)
            elif record.timing.causes is None:
                self.crowded.append(crowded_out(record.telemetry) if record.telemetry else 0.0)

    def look(self) -> Estimate | None:
        """Return the interval if the number of pairs is one of `LOOKS`, else None."""
        return speed_ratio(self.ratios) if len(self.ratios) in LOOKS else None

    def result(self, within: float) -> PointResult:
        """Return the result from the pairs measured so far."""
        speed, verdict, reason = judge_pairs(self.ratios, within, self.ended or "interrupted")
        if self.failure:
            verdict, reason = "not measured", self.failure
        elif len(self.bounds) > len(self.ratios):  # more than half of all measurements
            verdict, reason = "inconclusive", ONLY_BOUNDS.format(len(self.bounds), 2 * len(self.ratios), self.bounds[0])
        elif self.crowded and (share := median(self.crowded)) >= CROWDED:
            verdict, reason = "inconclusive", CROWDED_OUT.format(percent(share))
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


def measure_interleaved(
    series: Sequence[PairSeries],
    measure: MeasureSide,
    within: float,
    deadline: float,
    on_progress: Callable[[PairSeries], None],
) -> None:
    """Measure all points, one block of each in turn, until all have ended.

    The first measurement of each side is not counted: it includes cold disk caches and compilation. No block starts
    that would end after `deadline`, a time of `time.monotonic`. `on_progress` is called with a point after its
    uncounted pair, at each look, and at its end.
    """
    for one in series:
        with _block_of(one):
            _pair(one, measure, ("A", "B"))
        on_progress(one)
    block = 0
    while left := [one for one in series if one.ended is None]:
        for one in left:
            if monotonic() + one.block_s > deadline:
                takes = f" before the first pair, which takes about {seconds(one.block_s)}: use a longer --time-limit"
                one.ended = f"time limit reached{'' if one.ratios else takes}"
                on_progress(one)
                continue
            with _block_of(one):
                for order in pairs_of(block):
                    one.add(*_pair(one, measure, order))
            found = one.look()
            if found and half_width(found) <= within:
                one.ended = "requested width reached"
            elif len(one.ratios) >= LOOKS[-1]:
                one.ended = f"maximum of {LOOKS[-1]} pairs reached"
            if found or one.ended:
                on_progress(one)
        block += 1


@contextmanager
def _block_of(one: PairSeries) -> Iterator[None]:
    """Time a block; a `SideFailure` ends the point."""
    begin = monotonic()
    try:
        yield
    except SideFailure as failure:
        one.failure = one.ended = str(failure)
    one.block_s = monotonic() - begin


def _pair(one: PairSeries, measure: MeasureSide, order: TimedPair) -> tuple[Record, Record, float]:
    """Measure both sides in the given order, and return the records of A and B and the ratio of their speeds."""
    found = {letter: _measured(one, measure, letter) for letter in order}
    try:
        return found["A"], found["B"], ratio_of(found["A"], found["B"])
    except ValueError as error:
        raise SideFailure(str(error)) from None


def _measured(one: PairSeries, measure: MeasureSide, letter: Letter) -> Record:
    record = measure(letter, one.points[letter])
    if record.status != "measured":
        raise SideFailure(f"{letter} {record.status}: {record.reason}")
    return record
