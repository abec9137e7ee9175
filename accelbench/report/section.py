"""Section of the report: a query on a run, and its output on the page and the terminal.

To add a section, add a module to `accelbench/report/sections`, and list its section in the `__init__.py` there, which
has the order of page and terminal. The terminal imports every section: import drawing libraries in functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accelbench.output.console import PlainConsole
from accelbench.report.joined import Joined
from accelbench.report.stored_run import Run as Run


def no_variables(found: Any, shown: Any) -> Mapping[str, Any]:
    """Return no additional template variables."""
    return {}


@dataclass(frozen=True)
class InPage:
    """Part of the page of a section."""

    template: str
    """Jinja template: the file `NAME.html` next to the section's module, or the template itself."""
    anchor: str = ""
    """Id of the section's element."""
    link: str = ""
    """Text of the link in the navigation; empty for no link."""
    content: Callable[[Any, Any], Mapping[str, Any]] = no_variables
    """Function of the section's findings and its run (or runs) that returns additional template variables; `found`, and
    `run` for a single run, are always defined."""


@dataclass(frozen=True)
class Section:
    """Section of the report."""

    find: Callable[[Run], Any] = lambda run: None
    """Function that returns the findings in a single run; the section is omitted if they are empty."""
    find_joined: Callable[[Joined], Any] | None = None
    """Function that returns the findings in one or several runs; used instead of `find`."""
    page: InPage | None = None
    terminal: Callable[[Any, PlainConsole], None] | None = None
    """Function that prints the findings."""

    def found(self, joined: Joined) -> tuple[Any, Run | Joined] | None:
        """Return the findings, and the run or runs that contain them; None if there are none."""
        if self.find_joined:
            found = self.find_joined(joined)
            return (found, joined) if found else None
        single = joined.single
        if single and (found := self.find(single)):
            return found, single
        return None
