"""A section of the report: what it finds in a run, and how the page and the terminal show it.

To add a section, add a file to `accelbench/report/sections`, and name its section in `__init__.py` there, which is the
order of page and terminal. The terminal imports every section, so a file imports drawing libraries where it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accelbench.output.console import PlainConsole
from accelbench.report.joined import Joined
from accelbench.report.stored_run import Run as Run


def nothing_more(found: Any, shown: Any) -> Mapping[str, Any]:
    """Return no further names: the template needs only what was found."""
    return {}


@dataclass(frozen=True)
class InPage:
    """A section's part of the page."""

    template: str
    """The Jinja template: the file `NAME.html` beside the section's own file, or a short text."""
    anchor: str = ""
    """The id of the section's element."""
    link: str = ""
    """The text of the link in the page's head; a part without one is not linked."""
    content: Callable[[Any, Any], Mapping[str, Any]] = nothing_more
    """The names that the template uses, from what was found and from the run, or the runs, that it was found in; it has
    `found` in any case, and `run` where the section is of one run."""


@dataclass(frozen=True)
class Section:
    """A part of the report: what it finds in a run, or in several, and how the page and the terminal show that."""

    find: Callable[[Run], Any] = lambda run: None
    """Return what there is to say of a run; where that is empty, neither the page nor the terminal has the section."""
    find_joined: Callable[[Joined], Any] | None = None
    """The same, in place of `find`, for a section that several runs have, too: one run is the simplest case of them."""
    page: InPage | None = None
    terminal: Callable[[Any, PlainConsole], None] | None = None
    """The function that prints what was found."""

    def found(self, joined: Joined) -> tuple[Any, Run | Joined] | None:
        """Return what the section finds, and in what: in the runs together, or in a run that stands alone."""
        if self.find_joined:
            found = self.find_joined(joined)
            return (found, joined) if found else None
        alone = joined.alone
        if alone and (found := self.find(alone)):
            return found, alone
        return None
