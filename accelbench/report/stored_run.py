"""Stored run with derived values that several sections of the report use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import cached_property
from typing import Literal, Self

from accelbench.execution.store import RunInfo, RunStore
from accelbench.history.fingerprint import fingerprint
from accelbench.output.format import percent, read, seconds
from accelbench.profiling.analysis.course import TimeCourse, course_of, disturbances
from accelbench.profiling.analysis.roofline import Ceiling, ceilings
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import UNITS
from accelbench.references.comparison import ReferenceComparison, compare_with_references
from accelbench.report.causes import FlagCause, causes
from accelbench.report.rows import Group, PointCounts, Row, count_text, counts_of, each_at_most, make_groups, rows_of

RECORDS_HELD = 3000
"""Maximum number of records per status kept in memory for page and terminal; a record takes about 40 kB."""
ROWS_IN_PAGE = 2000
"""Maximum number of points in the tables of the page; `records.csv` has all points."""
BENCHMARKS_NAMED = 4
"""Maximum number of benchmarks in place of a suite's name."""
BELOW_BEST = 0.9
"""Share of this machine's best ceiling below which today's is replaced by it; runs differ by less on a quiet machine.
"""

ConfidenceLight = Literal["good", "disturbed", "bad"]
"""Confidence in a run: `disturbed` if a result is noisy, `bad` if a point failed."""
LIGHT_STYLES: dict[ConfidenceLight, str] = {"good": "green", "disturbed": "yellow", "bad": "bold red"}
"""Terminal style of each confidence."""


@dataclass(frozen=True)
class OmittedPoints:
    """Points of a very large run that page and terminal omit, to limit the memory of their records."""

    points: frozenset[str] = frozenset()
    counts: PointCounts = field(default_factory=PointCounts)


@dataclass(frozen=True)
class Run:
    """Stored run with cached derived values."""

    info: RunInfo
    records: Sequence[Record]
    """Records; at most the first `RECORDS_HELD` of each status."""
    left_out: OmittedPoints = field(default_factory=OmittedPoints)
    store: RunStore | None = None
    """Store that the run was read from, which has the omitted records, too."""

    @classmethod
    def of(cls, store: RunStore) -> Self:
        """Read the run from its store."""
        held: list[Record] = []
        held_of: Counter[str] = Counter()
        points, counts = set(), PointCounts()
        for record in store.points():
            if held_of[record.status] < RECORDS_HELD:
                held_of[record.status] += 1
                held.append(record)
            else:
                points.add(str(record.point))
                counts += counts_of([record], [course_of(record)])
        return cls(store.info(), held, OmittedPoints(frozenset(points), counts), store)

    @cached_property
    def courses(self) -> list[TimeCourse]:
        """Return the time course of each record."""
        return [course_of(record) for record in self.records]

    @cached_property
    def disturbed(self) -> list[Record]:
        """Return the noisy records."""
        judged = zip(self.records, self.courses, strict=True)
        return [record for record, course in judged if record.status == "measured" and disturbances(record, course)]

    @cached_property
    def counts(self) -> PointCounts:
        """Return the numbers of measured, noisy, failed and skipped points, including omitted ones."""
        return counts_of(self.records, self.courses) + self.left_out.counts

    @property
    def counts_text(self) -> str:
        """Return the counts as text."""
        return count_text(self.info, self.counts)

    @property
    def has_logs(self) -> bool:
        """Return whether the run has a directory with the workers' output."""
        return bool(self.store and (self.store.path / "logs").is_dir())

    @property
    def created(self) -> str:
        """Return the start time of the run as text: `2026-11-22 14:03 UTC`."""
        return f"{self.info.created.astimezone(UTC):%Y-%m-%d %H:%M} UTC"

    @property
    def suite(self) -> str:
        """Return the suite's name; without one, the named benchmarks."""
        if self.info.suite:
            return self.info.suite
        ceilings = {record.point.benchmark for record in self.records if record.ceiling}
        planned = list(dict.fromkeys(point.benchmark for point in self.info.plan))
        names = [name for name in planned if name not in ceilings] or planned
        more = len(names) - BENCHMARKS_NAMED
        return ", ".join(names[:BENCHMARKS_NAMED]) + f" and {more} more" * (more > 0) or "no benchmark"

    @property
    def unfinished(self) -> str:
        """Return the state of an unfinished run as text; empty if the run is finished."""
        state = {"finished": "", "running": "not finished"}.get(self.info.status, self.info.status)
        return f"the run is {state}" if state else ""

    @property
    def outcome(self) -> str:
        """Return the counts as text, with notes on an unfinished run and on omitted points."""
        left_out = self.left_out.counts.points
        part = f"{left_out:,} points are only in the CSV" if left_out else ""
        return "; ".join(filter(None, [self.counts_text, self.unfinished, part]))

    @property
    def machine(self) -> str:
        """Return the machine's fingerprint."""
        return fingerprint(self.info)

    @property
    def light(self) -> ConfidenceLight:
        """Return the confidence in the run's results."""
        return "bad" if self.counts.failed else "disturbed" if self.counts.disturbed else "good"

    def all_records(self) -> Iterator[Record]:
        """Yield every record of the run, including omitted ones."""
        yield from self.store.points() if self.store and self.left_out.points else self.records

    @property
    def lost(self) -> list[str]:
        """Return the points of the plan that have no record."""
        there = {str(record.point) for record in self.records} | self.left_out.points
        return sorted({str(point) for point in self.info.plan} - there)

    @cached_property
    def rows(self) -> list[Row]:
        """Return a row for each measured record."""
        return rows_of(self.records, self.courses, self.ceilings if self.info.settings.ceilings else None)

    @cached_property
    def groups(self) -> list[Group]:
        """Return the rows by benchmark, device and backend."""
        return make_groups(self.rows)

    @cached_property
    def causes(self) -> list[FlagCause]:
        """Return the causes of the rows' flags."""
        return causes(self.rows)

    @cached_property
    def ceilings(self) -> Sequence[Ceiling]:
        """Return the ceilings measured in this run or taken from an earlier one; none if the settings disable them."""
        if not self.info.settings.ceilings:
            return []
        earlier = self.info.earlier_ceilings
        taken_over = earlier.records if earlier else []
        found = ceilings([*self.records, *taken_over], [*self.courses, *map(course_of, taken_over)])
        past = [record for run in self.info.best_ceilings for record in run.records]
        best = ceilings(past) if past else []
        return [_best_reached(ceiling, best) for ceiling in found]

    @property
    def below_best(self) -> str:
        """Return how far memory is below this machine's best, as text; empty if it is near it or none is known."""
        found = [each for each in self.ceilings if each.reached_today and each.reached_today < BELOW_BEST * each.value]
        texts = []
        for best in found:
            share, rate = percent((best.reached_today or 0.0) / best.value), read(best.value, UNITS[best.metric])
            on = f"{best.record.started:%Y-%m-%d}"
            cores = " of one core" if best.cores == "one" else ""
            texts.append(f"memory{cores} at {share} of this machine's best, {rate.quantity} on {on}")
        if not texts:
            return ""
        text = f"{'; '.join(texts)}: shared memory bandwidth is likely; rates of memory are lower bounds"
        return text[0].upper() + text[1:]

    @property
    def ceilings_from(self) -> str:
        """Return the run that the ceilings were taken from, as text; empty if this run measured its own."""
        earlier = self.info.earlier_ceilings
        if earlier is None or not self.info.settings.ceilings:
            return ""
        before = seconds((self.info.created - earlier.created).total_seconds())
        return f"the ceilings are from run {earlier.run_id}, started {before} earlier"

    @cached_property
    def rows_in_page(self) -> int:
        """Return the maximum number of rows per group on the page."""
        return each_at_most((len(group.rows) for group in self.groups), ROWS_IN_PAGE)

    @cached_property
    def shown(self) -> list[Row]:
        """Return the rows shown on the page."""
        return [row for group in self.groups for row in group.rows[: self.rows_in_page]]

    @cached_property
    def reference_comparisons(self) -> Sequence[ReferenceComparison]:
        """Return the decided comparisons with references for this device, or for its family of CPUs."""
        folder = self.store.path.parent if self.store else None
        compared = compare_with_references(self.info, self.records, folder, with_family=True)
        return tuple(comparison for comparison in compared if comparison.is_decided)

    def of_status(self, status: str) -> list[Record]:
        """Return the records of this status: measured, failed or skipped."""
        return [record for record in self.records if record.status == status]


def _best_reached(today: Ceiling, past: Sequence[Ceiling]) -> Ceiling:
    """Return the best ceiling of this machine's past runs if today's is far below it or noisy; else today's."""
    below = 1.0 if today.doubt else BELOW_BEST
    for best in past:
        kind = (best.device, best.metric, best.cores)
        if kind == (today.device, today.metric, today.cores) and today.value < below * best.value:
            return replace(best, reached_today=today.value)
    return today
