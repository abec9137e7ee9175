"""Console for untrusted text: no markup, no control characters. All output to the terminal goes through it.

`HangingText` is a wrapped text with indented lines.

Names and reasons may come from foreign runs, ranks and files. Control characters are removed from everything rendered,
cells of tables included; only the console's own colours are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

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


class HangingText:
    """Text that is wrapped at the width of the terminal or column, with indented lines."""

    def __init__(self, text: Text, first: int = 0, rest: int = 2) -> None:
        self.text = text
        self.first = first
        """Indentation of the first line in characters."""
        self.rest = rest
        """Indentation of the further lines in characters."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Text]:
        """Yield the lines; a text that fits is a single line."""
        fits = self.text.cell_len + self.first <= options.max_width and "\n" not in self.text.plain
        room = max(1, options.max_width - max(self.first, self.rest))
        for number, line in enumerate([self.text] if fits else self.text.wrap(console, room, overflow="fold")):
            yield Text.assemble(" " * (self.rest if number else self.first), line)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the width of the longest word, and of the whole text, each with its indentation."""
        of_text = Measurement.get(console, options, self.text)
        return Measurement(of_text.minimum + max(self.first, self.rest), of_text.maximum + self.first)


def say(text: str, stderr: bool = False) -> None:
    """Print text without control characters, and flush."""
    print(plain(text), file=sys.stderr if stderr else sys.stdout, flush=True)
