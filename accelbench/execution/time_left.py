"""The seconds that a run still takes, by what its points took before, in it or earlier, and by a training's steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from time import monotonic
from typing import NamedTuple

from accelbench.execution.schedule import Turn
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.position import Position


class Took(NamedTuple):
    """The wall time of a point or of one round of it, in seconds."""

    wall_s: float
    """All of it, the start of its processes included."""
    after_s: float = 0.0
    """The part after what was measured: the answer's check and the profile."""

    @classmethod
    def by(cls, record: Record) -> Took:
        """Return what this record's measurement took."""
        phases = record.phases
        return cls(record.elapsed_s + phases.import_s, phases.verify_s + phases.profile_s)


class Pace:
    """The rate of a training's steps, by when they were seen; its first one, which compiles, is left out."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self.left_s: float | None = None
        """The seconds until the last step of the last epoch; None where that is not known."""

    def see(self, position: Position | None, now: float) -> None:
        """Take in how far the training is at this time, in seconds of any clock; None is no training."""
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
    """The seconds that the turns of a run will take."""

    def __init__(self, past: Mapping[str, Took], schedule: Sequence[Turn], before: Iterable[Record]) -> None:
        """Know what points took in earlier runs, by their names, and in this one `before` it was gone on with."""
        rounds: dict[str, int] = {}
        for turn in schedule:
            rounds[str(turn.point)] = max(turn.round, rounds.get(str(turn.point), 1))
        self._turn: Turn | None = None
        self._past = {
            name: Took(past[name].wall_s / count, past[name].after_s / count)
            for name, count in rounds.items()
            if name in past
        }
        self._took: dict[bool, dict[str, Took]] = {True: {}, False: {}}
        """What points took in this run, by their names, trainings apart from kernels."""
        for record in before:
            self.finished(record)
        self._begin = monotonic()
        self.pace = Pace()

    def started(self, turn: Turn) -> None:
        self._turn, self._begin, self.pace = turn, monotonic(), Pace()

    def finished(self, record: Record) -> None:
        self._turn = None
        kind = bool(record.point.backend)
        # A new dictionary each time: the thread that draws the live lines may be reading the old one.
        self._took[kind] = self._took[kind] | {str(record.point): Took.by(record)}

    def seconds(self, left: Iterable[Turn]) -> float | None:
        """Return the seconds of the turns that are left, of which one may go on; None where one's are not known."""
        total = 0.0
        for turn in left:
            expected = self._expected(turn.point)
            if expected is None:
                return None
            total += self._rest(turn, expected) if turn == self._turn else expected.wall_s
        return total

    def _rest(self, turn: Turn, expected: Took) -> float:
        """Return the seconds that are left of the turn that goes on."""
        as_before = max(0.0, expected.wall_s - (monotonic() - self._begin))
        if self.pace.left_s is None:
            return as_before
        by_steps = self.pace.left_s + expected.after_s
        # A later round of a training may end before its last epoch.
        return by_steps if turn.round == 1 else min(by_steps, as_before)

    def _expected(self, point: Point) -> Took | None:
        """Return what a turn of the point will take: as in its last round, as before, or as others of its kind."""
        alike = self._took[bool(point.backend)]
        found = alike.get(str(point)) or self._past.get(str(point))
        if found or not alike:
            return found
        return Took(fmean(took.wall_s for took in alike.values()), fmean(took.after_s for took in alike.values()))
