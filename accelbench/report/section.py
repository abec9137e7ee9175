"""A section of the report: a file of `accelbench/report/sections` that declares one, as `section`.

To add a section, add a file; there is no list of them. Its page is the template in `InPage.template`, or `NAME.html`
beside the file. The terminal imports every section, so a file imports drawing libraries where it draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from accelbench.report.rows import Counts, Group, Row, count_text, counts_of, each_at_most, make_groups, rows_of
from accelbench.run.store import RunInfo, RunStore
from profiling.analysis.course import Course, course_of, disturbances
from profiling.analysis.roofline import Ceiling, ceilings
from profiling.modules import modules_of
from profiling.records.record import Record

RECORDS_HELD = 3000
"""The records of each status that are held for the page and the terminal: one takes some 40 kB of memory."""
ROWS_IN_PAGE = 2000
"""The points that the tables of the page show, so that a browser opens it at once; `records.csv` has all of them."""


@dataclass(frozen=True)
class LeftOut:
    """The points of a very large run that page and terminal leave out, so that their records need not be held."""

    points: frozenset[str] = frozenset()
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class Run:
    """A stored run, and what several sections derive from its records: each of it is found once."""

    info: RunInfo
    records: Sequence[Record]
    """The records, of a very large run the first `RECORDS_HELD` of each status."""
    left_out: LeftOut = field(default_factory=LeftOut)

    @classmethod
    def of(cls, store: RunStore) -> Run:
        """Return the run as it is stored."""
        held: list[Record] = []
        held_of: Counter[str] = Counter()
        points, counts = set(), Counts()
        for record in store.points():
            if held_of[record.status] < RECORDS_HELD:
                held_of[record.status] += 1
                held.append(record)
            else:
                points.add(str(record.point))
                counts += counts_of([record], [course_of(record)])
        return cls(store.info(), held, LeftOut(frozenset(points), counts))

    @cached_property
    def courses(self) -> list[Course]:
        """Return the judgement on the samples of each record, in the order of the records."""
        return [course_of(record) for record in self.records]

    @cached_property
    def disturbed(self) -> list[Record]:
        """Return the measured records that something disturbed."""
        judged = zip(self.records, self.courses, strict=True)
        return [record for record, course in judged if record.status == "measured" and disturbances(record, course)]

    @cached_property
    def counts(self) -> Counts:
        """Return how many points were measured, were disturbed, failed or were skipped, those left out among them."""
        return counts_of(self.records, self.courses) + self.left_out.counts

    @property
    def counts_text(self) -> str:
        """Return these counts in words."""
        return count_text(self.info, self.counts)

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
    def ceilings(self) -> Sequence[Ceiling]:
        """Return the best rates measured in this run; none where it was to measure no ceilings."""
        return ceilings(self.records, self.courses) if self.info.settings.ceilings else []

    @cached_property
    def rows_in_page(self) -> int:
        """Return how many rows of each group the tables of the page show."""
        return each_at_most((len(group.rows) for group in self.groups), ROWS_IN_PAGE)

    @cached_property
    def shown(self) -> list[Row]:
        """Return the rows that the tables of the page show."""
        return [row for group in self.groups for row in group.rows[: self.rows_in_page]]

    def of_status(self, status: str) -> list[Record]:
        """Return the records of this status: measured, failed or skipped."""
        return [record for record in self.records if record.status == status]


def nothing_more(found: Any, run: Run) -> Mapping[str, Any]:
    """Return no further names: the template needs only what was found."""
    return {}


@dataclass(frozen=True)
class InPage:
    """A section's part of the page."""

    order: int
    """The place in the page: sections stand by rising order."""
    anchor: str = ""
    """The id of the section's element."""
    link: str = ""
    """The words that lead there from the page's head; a part without them is not linked."""
    content: Callable[[Any, Run], Mapping[str, Any]] = nothing_more
    """The names that the template uses, from what was found; it has `found` and `run` in any case."""
    template: str | None = None
    """The Jinja template, where it is not the file of the section's name."""


@dataclass(frozen=True)
class InTerminal:
    """A section's lines in the terminal."""

    order: int
    """The place in the terminal, whose table comes first: sections stand by rising order."""
    show: Callable[[Any, Console], None]
    """The function that prints what was found."""


@dataclass(frozen=True)
class Section:
    """A part of the report: what it finds in a run, and how the page and the terminal show that."""

    find: Callable[[Run], Any]
    """Return what there is to say of a run; where that is empty, neither the page nor the terminal has the section."""
    page: InPage | None = None
    terminal: InTerminal | None = None


def sections() -> dict[str, Section]:
    """Return every section by the name of its file."""
    return {name: module.section for name, module in modules_of("accelbench.report.sections").items()}


def numbers_table(*columns: str) -> Table:
    """Return an empty table for the terminal, whose columns stand right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    return table
