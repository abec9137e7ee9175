"""Parts of drawings that fit any width: positions in percent of the width, and text of a fixed size.

Such a drawing is as readable on a telephone as on a screen. Its style is in `report.css` (class `bars`).
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from accelbench.output.plain_text import plain
from accelbench.profiling.records.stored import readable

WIDTH = 46
"""Maximum number of characters of a line of text, which fit the width of a telephone."""
LINE = 20
"""Height in pixels of a line of text."""


def fluid_svg(name: str, title: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Return the `<svg>` element; `name` is unique in the page, `title` is its accessible name."""
    return Markup(
        '<svg class="bars" width="100%" height="{}" role="img" aria-labelledby="{}-title">'
        '<title id="{}-title">{}</title>{}</svg>'
    ).format(height, name, name, shown(title), Markup("\n").join(parts))


def text(x: str, y: float, content: str, style: str = "", shift: int = 0) -> Markup:
    """Return a line of text at `x` (with its unit) plus `shift` pixels."""
    return Markup('<text class="{}" x="{}" dx="{}" y="{}">{}</text>').format(style, x, shift, y, shown(content))


def titled(title: str, parts: Sequence[Markup], style: str = "") -> Markup:
    """Return a group with a tooltip."""
    return Markup('<g class="{}"><title>{}</title>{}</g>').format(style, shown(title), Markup("").join(parts))


def shown(content: str) -> str:
    """Return the text without control characters."""
    return readable(plain(content))
