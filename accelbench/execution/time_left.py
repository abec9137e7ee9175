"""Estimate of the remaining time of a run, from wall times of its points and the step rate of a training run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from time import monotonic
from typing import NamedTuple

from accelbench.execution.schedule import ScheduledRun
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.position import Position


class WallTime(NamedTuple):
    """Wall time of a point or of one repetition, in seconds."""

    wall_s: float
    """Total, including process start."""
    after_s: float = 0.0
    """Time after the measurement: verification and profile."""

    @classmethod
    def of(cls, record: Record) -> WallTime:
        """Return the wall time of the record's measurement."""
        phases = record.phases
        return cls(record.elapsed_s + phases.import_s, phases.verify_s + phases.profile_s)


class Pace:
    """Step rate of a training run, from observed positions; the first step, which compiles, is excluded."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self.left_s: float | None = None
        """Seconds until the last step of the last epoch; None if unknown."""

    def update(self, position: Position | None, now: float) -> None:
        """Add the position observed at time `now` in seconds; None resets the rate."""
        if position is None or not position.steps:
            self._first, self.left_s = None, None
            return
        done = (position.epoch - 1) * position.steps + position.step
        if done and self._first is None:
            self._first = done, now
        if self._first and done > self._first[0]:
            each = (now - self._first[1]) / (done - self._first[0])
            self.left_s = each * (position.epochs * position.steps - done)


class TimeLeft:
    """Remaining time of a run."""

    def __init__(
        self, past: Mapping[str, WallTime], schedule: Sequence[ScheduledRun], before: Iterable[Record]
    ) -> None:
        """Initialize with wall times of earlier runs, by point, and this run's records from before its resumption."""
        rounds: dict[str, int] = {}
        for scheduled in schedule:
            rounds[str(scheduled.point)] = max(scheduled.round, rounds.get(str(scheduled.point), 1))
        self._scheduled: ScheduledRun | None = None
        self._past = {
            name: WallTime(past[name].wall_s / count, past[name].after_s / count)
            for name, count in rounds.items()
            if name in past
        }
        self._took: dict[bool, dict[str, WallTime]] = {True: {}, False: {}}
        """Wall times in this run by point name, separately for training workloads (True) and kernels (False)."""
        for record in before:
            self.finished(record)
        self._begin = monotonic()
        self.pace = Pace()

    def started(self, scheduled: ScheduledRun) -> None:
        self._scheduled, self._begin, self.pace = scheduled, monotonic(), Pace()

    def finished(self, record: Record) -> None:
        self._scheduled = None
        kind = bool(record.point.backend)
        # A new dictionary each time: the display thread may be reading the old one.
        self._took[kind] = self._took[kind] | {str(record.point): WallTime.of(record)}

    def seconds(self, left: Iterable[ScheduledRun]) -> float | None:
        """Return the remaining seconds of the given runs, one of which may have started; None if any is unknown."""
        total = 0.0
        for scheduled in left:
            expected = self._expected(scheduled.point)
            if expected is None:
                return None
            total += self._rest(scheduled, expected) if scheduled == self._scheduled else expected.wall_s
        return total

    def _rest(self, scheduled: ScheduledRun, expected: WallTime) -> float:
        """Return the remaining seconds of the current scheduled run."""
        as_before = max(0.0, expected.wall_s - (monotonic() - self._begin))
        if self.pace.left_s is None:
            return as_before
        by_steps = self.pace.left_s + expected.after_s
        # A training run may end before its last epoch in later repetitions.
        return by_steps if scheduled.round == 1 else min(by_steps, as_before)

    def _expected(self, point: Point) -> WallTime | None:
        """Return the expected wall time: of the last repetition, of an earlier run, or the mean of other points."""
        alike = self._took[bool(point.backend)]
        found = alike.get(str(point)) or self._past.get(str(point))
        if found or not alike:
            return found
        return WallTime(fmean(took.wall_s for took in alike.values()), fmean(took.after_s for took in alike.values()))
