"""The advice for the trainings that were profiled, once for each verdict; the page says it beside each verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from accelbench.report.section import InTerminal, Run, Section
from accelbench.report.verdict import verdict


def _find(run: Run) -> Mapping[str, str]:
    found = [row.record.profile for row in run.rows if row.record.profile]
    return {verdict(profile): profile.bottleneck.help for profile in found if profile.bottleneck.help}


def _print(helps: Mapping[str, str], console: Console) -> None:
    for bound_by, help_text in helps.items():
        console.print(Text.assemble((bound_by, "cyan"), (f": what would help is {help_text}", "dim")))


section = Section(find=_find, terminal=InTerminal(30, _print))
