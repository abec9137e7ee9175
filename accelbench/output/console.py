"""The one way to the terminal: what is printed is shown as it is, and never acts on the terminal or its reader.

Names and reasons come from runs, ranks and files of others. So nothing in a text is markup, and control characters are
taken out of whatever is rendered, a table's cells included; only the console's own colours get through.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from accelbench.output.plain_text import plain


class PlainConsole(Console):
    """A console to which a text is a text: `[red]` and `:smile:` mean nothing to it, escape sequences do not pass."""

    def __init__(
        self,
        *,
        stderr: bool = False,
        file: IO[str] | None = None,
        width: int | None = None,
        verbose: bool = False,
        quiet: bool = False,
    ) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr, file=file, width=width, quiet=quiet)
        self.verbose = verbose
        """Whether the reader wants all there is, and not what fits a screen."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is to be written, every text of it plain; control segments are the console's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def say(text: str, stderr: bool = False) -> None:
    """Print a plain text at once, without what a console brings along."""
    print(plain(text), file=sys.stderr if stderr else sys.stdout, flush=True)
