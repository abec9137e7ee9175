"""A section of the report: a file of `accelbench/report/sections` that declares one, as `section`.

To add a section, add a file; there is no list of them. Its page is the template in `InPage.template`, or `NAME.html`
beside the file. The terminal imports every section, so a file imports drawing libraries where it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from accelbench.plain_console import PlainConsole
from accelbench.report.joined import Joined
from accelbench.report.stored_run import Run as Run
from profiling.modules import modules_of


def nothing_more(found: Any, shown: Any) -> Mapping[str, Any]:
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
    content: Callable[[Any, Any], Mapping[str, Any]] = nothing_more
    """The names that the template uses, from what was found and from the run, or the runs, that it was found in; it has
    `found` in any case, and `run` where the section is of one run."""
    study: bool = False
    """Whether a study's suite is measured for it: there it stands before what tells of single points."""
    template: str | None = None
    """The Jinja template, where it is not the file of the section's name."""


@dataclass(frozen=True)
class InTerminal:
    """A section's lines in the terminal."""

    order: int
    """The place in the terminal, whose table comes first: sections stand by rising order."""
    show: Callable[[Any, PlainConsole], None]
    """The function that prints what was found."""


@dataclass(frozen=True)
class Section:
    """A part of the report: what it finds in a run, or in several, and how the page and the terminal show that."""

    find: Callable[[Run], Any] = lambda run: None
    """Return what there is to say of a run; where that is empty, neither the page nor the terminal has the section."""
    find_joined: Callable[[Joined], Any] | None = None
    """The same, in place of `find`, for a section that several runs have, too: one run is the simplest case of them."""
    page: InPage | None = None
    terminal: InTerminal | None = None

    def found(self, joined: Joined) -> tuple[Any, Run | Joined] | None:
        """Return what the section finds, and in what: in the runs together, or in a run that stands alone."""
        if self.find_joined:
            found = self.find_joined(joined)
            return (found, joined) if found else None
        alone = joined.alone
        if alone and (found := self.find(alone)):
            return found, alone
        return None


def sections() -> dict[str, Section]:
    """Return every section by the name of its file."""
    return {name: module.section for name, module in modules_of("accelbench.report.sections").items()}


def numbers_table(*columns: str) -> Table:
    """Return an empty table for the terminal, whose columns stand right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    return table
