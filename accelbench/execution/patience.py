"""Patience of a run: its additional time for undisturbed samples, and the repetitions that are measured again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.store import Settings
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.host import MIN_SECONDS, PATIENCE_SHARE


def sampling_seconds(settings: Settings, point: Point) -> float:
    """Return the sampling time of one repetition in seconds: an equal share, at least the stopping rule's minimum."""
    share = settings.max_seconds / settings.rounds_of(point)
    return max(share, min(settings.max_seconds, MIN_SECONDS))


class Patience:
    """Time left for sampling that exceeds the plan, because other work disturbs the samples."""

    def __init__(self, settings: Settings, runs: Sequence[ScheduledRun]) -> None:
        """Start with the given time, by default half of the planned sampling time of `runs`."""
        self._settings = settings
        planned_s = sum(sampling_seconds(settings, run.point) for run in runs)
        self.left_s = PATIENCE_SHARE * planned_s if settings.patience_s is None else settings.patience_s
        self._bounds: list[tuple[ScheduledRun, Record]] = []

    def of(self, scheduled: ScheduledRun) -> float:
        """Return the additional sampling time of one repetition: at most as long as planned."""
        return min(self.left_s, sampling_seconds(self._settings, scheduled.point))

    def finished(self, scheduled: ScheduledRun, record: Record) -> None:
        """Subtract the additional time of a record of the plan; note it if its result is only a bound."""
        if record.timing is None or record.timing.causes is None:
            return
        if record.timing.steady:
            self._spend(record.timing.extended_s)
        else:
            sampled_s = sum(record.timing.samples) * record.timing.loops
            self._spend(sampled_s - sampling_seconds(self._settings, scheduled.point))
        if record.timing.upper_bound:
            self._bounds.append((scheduled, record))

    def again(self) -> Iterator[tuple[ScheduledRun, Record]]:
        """Yield the repetitions that are only bounds, each once, with their records, as long as there is time."""
        for scheduled, record in self._bounds:
            needed_s = sampling_seconds(self._settings, scheduled.point)
            if record.timing and record.timing.steady:  # a training takes its epochs, however long they are
                needed_s = record.elapsed_s + record.phases.import_s
            if self.left_s >= needed_s:
                yield scheduled, record

    def repeated(self, record: Record) -> None:
        """Subtract the time of a repetition that was measured again."""
        self._spend(record.elapsed_s + record.phases.import_s)

    def _spend(self, seconds: float) -> None:
        self.left_s = max(0.0, self.left_s - max(0.0, seconds))


def is_better(new: Record, old: Record) -> bool:
    """Return whether a repetition that was measured again replaces its bound: an estimate, a tighter bound, a failure.

    Both bounds are true, so that the tighter one is not chosen by chance. A failure is never hidden.
    """
    if new.timing is None or old.timing is None or not new.timing.upper_bound:
        return True
    return new.timing.execution.seconds < old.timing.execution.seconds
