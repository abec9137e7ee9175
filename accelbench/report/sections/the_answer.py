"""The first thing that page and terminal answer: how fast the machine is, what holds it back, whether to believe it."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.report.answer import Answer, answer
from accelbench.report.section import InPage, InTerminal, Section
from accelbench.report.stored_run import LIGHT_STYLES

WIDTH = 100


def _print(found: Answer, console: Console) -> None:
    console.print()
    for question, text in found.lines:
        console.print(Text(question, style="bold"))
        style = LIGHT_STYLES[found.light] if text is found.believe else ""
        console.print(Padding(Text(text, style=style), (0, 0, 0, 2)), width=min(WIDTH, console.width))
    console.print()


section = Section(find=answer, page=InPage(0), terminal=InTerminal(48, _print))
