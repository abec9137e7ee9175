"""Console for untrusted text: no markup, no control characters. All output to the terminal goes through it.

Names and reasons may come from foreign runs, ranks and files. Control characters are removed from everything rendered,
cells of tables included; only the console's own colours are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from accelbench.output.plain_text import plain


class PlainConsole(Console):
    """Rich console without markup (`[red]`), emoji codes (`:smile:`) and escape sequences in texts."""

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
        """Whether to print all details, not only what fits a screen."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments with plain text; control segments come from the console itself."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def say(text: str, stderr: bool = False) -> None:
    """Print text without control characters, and flush."""
    print(plain(text), file=sys.stderr if stderr else sys.stdout, flush=True)
