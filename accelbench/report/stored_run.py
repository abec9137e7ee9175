"""A stored run as the report shows it, and what several sections derive from its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import cached_property
from typing import Literal, Self

from accelbench.execution.store import RunInfo, RunStore
from accelbench.history.fingerprint import fingerprint
from accelbench.output.format import seconds
from accelbench.profiling.analysis.course import TimeCourse, course_of, disturbances
from accelbench.profiling.analysis.roofline import Ceiling, ceilings
from accelbench.profiling.records.record import Record
from accelbench.references.comparison import ReferenceComparison, compare_with_references
from accelbench.report.causes import FlagCause, causes
from accelbench.report.rows import Group, PointCounts, Row, count_text, counts_of, each_at_most, make_groups, rows_of

RECORDS_HELD = 3000
"""The records of each status that are held for the page and the terminal: one takes some 40 kB of memory."""
ROWS_IN_PAGE = 2000
"""The points that the tables of the page show, so that a browser opens it at once; `records.csv` has all of them."""


ConfidenceLight = Literal["good", "disturbed", "bad"]
"""Whether figures can be believed: `disturbed` where something disturbed one, `bad` where a point failed."""
LIGHT_STYLES: dict[ConfidenceLight, str] = {"good": "green", "disturbed": "yellow", "bad": "bold red"}
"""How a terminal shows each."""


@dataclass(frozen=True)
class OmittedPoints:
    """Points of a very large run that page and terminal omit, to limit the memory of their records."""

    points: frozenset[str] = frozenset()
    counts: PointCounts = field(default_factory=PointCounts)


@dataclass(frozen=True)
class Run:
    """A stored run, and what several sections derive from its records: each of it is found once."""

    info: RunInfo
    records: Sequence[Record]
    """The records, of a very large run the first `RECORDS_HELD` of each status."""
    left_out: OmittedPoints = field(default_factory=OmittedPoints)
    store: RunStore | None = None
    """The store that the run was read from, which has the records that are left out, too."""

    @classmethod
    def of(cls, store: RunStore) -> Self:
        """Return the run as it is stored."""
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
        """Return the judgement on the samples of each record, in the order of the records."""
        return [course_of(record) for record in self.records]

    @cached_property
    def disturbed(self) -> list[Record]:
        """Return the measured records that something disturbed."""
        judged = zip(self.records, self.courses, strict=True)
        return [record for record, course in judged if record.status == "measured" and disturbances(record, course)]

    @cached_property
    def counts(self) -> PointCounts:
        """Return how many points were measured, were disturbed, failed or were skipped, those left out among them."""
        return counts_of(self.records, self.courses) + self.left_out.counts

    @property
    def counts_text(self) -> str:
        """Return these counts in words."""
        return count_text(self.info, self.counts)

    @property
    def has_logs(self) -> bool:
        """Return whether what the workers printed lies beside the records."""
        return bool(self.store and (self.store.path / "logs").is_dir())

    @property
    def created(self) -> str:
        """Return when the run was made, in words: `2026-11-22 14:03 UTC`."""
        return f"{self.info.created.astimezone(UTC):%Y-%m-%d %H:%M} UTC"

    @property
    def suite(self) -> str:
        """Return the suite's name, or that the benchmarks were named one by one."""
        return self.info.suite or "benchmarks by name"

    @property
    def unfinished(self) -> str:
        """Return in words that the run did not come to its end; nothing of one that did."""
        state = {"finished": "", "running": "not finished"}.get(self.info.status, self.info.status)
        return f"the run is {state}" if state else ""

    @property
    def outcome(self) -> str:
        """Return how many points were measured, and whether the run is unfinished or shown in part."""
        left_out = self.left_out.counts.points
        part = f"{left_out:,} points are in the CSV alone" if left_out else ""
        return "; ".join(filter(None, [self.counts_text, self.unfinished, part]))

    @property
    def machine(self) -> str:
        """Return the machine that it was measured on, in words."""
        return fingerprint(self.info)

    @property
    def light(self) -> ConfidenceLight:
        """Return whether the figures can be believed."""
        return "bad" if self.counts.failed else "disturbed" if self.counts.disturbed else "good"

    def all_records(self) -> Iterator[Record]:
        """Yield every record of the run, those that are left out among them."""
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
        """Return the best rates measured in this run or taken over from another; none where it was to have none."""
        if not self.info.settings.ceilings:
            return []
        earlier = self.info.earlier_ceilings
        taken_over = earlier.records if earlier else []
        return ceilings([*self.records, *taken_over], [*self.courses, *map(course_of, taken_over)])

    @property
    def ceilings_from(self) -> str:
        """Return which run the ceilings were taken over from, in words; nothing of one that measured its own."""
        earlier = self.info.earlier_ceilings
        if earlier is None or not self.info.settings.ceilings:
            return ""
        before = seconds((self.info.created - earlier.created).total_seconds())
        return f"the ceilings are those of {earlier.run_id}, which was begun {before} before"

    @cached_property
    def rows_in_page(self) -> int:
        """Return how many rows of each group the tables of the page show."""
        return each_at_most((len(group.rows) for group in self.groups), ROWS_IN_PAGE)

    @cached_property
    def shown(self) -> list[Row]:
        """Return the rows that the tables of the page show."""
        return [row for group in self.groups for row in group.rows[: self.rows_in_page]]

    @cached_property
    def reference_comparisons(self) -> Sequence[ReferenceComparison]:
        """Return the results that have published or own references for this device, with those."""
        return compare_with_references(self.info, self.records, self.store.path.parent if self.store else None)

    def of_status(self, status: str) -> list[Record]:
        """Return the records of this status: measured, failed or skipped."""
        return [record for record in self.records if record.status == status]
