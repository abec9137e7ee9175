"""Matplotlib figures as inline SVG: styled by the page's CSS, accessible, and reproducible.

Placeholder colours become CSS variables, for light and dark mode. Text remains text in the page's font. Every id has
the figure's name as a prefix, as ids must be unique in a page. Matplotlib is imported only in functions, because the
terminal imports the sections, too.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from accelbench.output.format import digits, read
from accelbench.output.plain_text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTH = 11.0
"""Width of a drawing in inches; the page scales drawings down, never up."""
ROW = 0.19
"""Height in inches of a legend's row."""
INK, MUTED, GRID, SURFACE = "#010101", "#020202", "#030303", "#040404"
SERIES = ("#010001", "#010002", "#010003", "#010004", "#010005", "#010006")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers: one more than the colours, so that combinations repeat only after 42 lines."""

SEPARATOR = "¶"
"""Separator of the tooltips that `add_tooltips` stores in a line's id until `inline_svg` extracts them."""

_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", SURFACE: "--surface"} | {
    color: f"--series-{number}" for number, color in enumerate(SERIES, start=1)
}
_COLOR = re.compile("|".join(_VARIABLES))
_FONT = re.compile(r"font: (?:(?P<weight>\w+) )?(?P<size>[\d.]+)px [^;]+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "accelbench",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.edgecolor": "none",
}


@contextmanager
def plot_style() -> Iterator[None]:
    """Return a context in which Matplotlib uses the page's style and no local settings."""
    import matplotlib
    from cycler import cycler

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"axes.prop_cycle": cycler(color=SERIES)})
        yield


def replica_axes(counts: Sequence[int], title: str) -> tuple[Figure, Axes]:
    """Return an empty figure with a logarithmic x-axis of these numbers of replicas."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = Figure(figsize=(WIDTH, 3.2))
    axes = figure.add_axes((0.09, 0.15, 0.89, 0.75))
    axes.set_xscale("log", base=2)
    axes.set_xlabel("replicas")
    axes.set_title(title, loc="left", fontsize=9, color=MUTED)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    return figure, axes


def tick_label(value: float, unit: str) -> str:
    """Return the tick label of a value: `200 GB/s`."""
    reading = read(value, unit)
    return f"{digits(float(reading.value.replace(',', '')), 1)} {reading.unit}"


def legend_height(entries: Sequence[Line2D]) -> float:
    """Return the height in inches of a legend below a drawing."""
    return ROW * math.ceil(len(entries) / _columns(entries))


def legend_below(figure: Figure, legends: Sequence[Sequence[Line2D]]) -> None:
    """Draw legends below the axes, the first at the bottom of the figure."""
    _, height = figure.get_size_inches()
    bottom = 0.0
    for entries in legends:
        place = {"loc": "lower left", "bbox_to_anchor": (0.07, bottom / height)}
        figure.legend(handles=entries, ncols=_columns(entries), handlelength=2.6, borderpad=0.2, **place)
        bottom += legend_height(entries)


def _columns(entries: Sequence[Line2D]) -> int:
    """Return the number of legend columns that fit."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    return max(1, min(len(entries), int(7.0 / (0.6 + 0.075 * longest))))


def add_tooltips(line: Line2D, name: str, marks: Sequence[str]) -> None:
    """Add tooltips to a line (its name) and to each of its markers (the name and the marker's text)."""
    texts = (name, *(f"{name}: {mark}" if name else mark for mark in marks))
    line.set_gid("".join(f"{SEPARATOR}{text.replace(SEPARATOR, ' ')}" for text in texts))


def inline_svg(figure: Figure, name: str, title: str) -> Markup:
    """Return the figure as an `<svg>` element; `name` is unique in the page, `title` is its accessible name."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(plain(buffer.getvalue()))
    for element in root.iter():
        _name_marks(element)
        _rewrite(element, name)
    _remove(root, "metadata")
    _remove(root, "defs", "style")  # its selector `*` would style the whole page; report.css has the rules
    width, height = (float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height"))
    root.attrib |= {"class": "plot", "role": "img", "aria-labelledby": f"{name}-title"}
    root.set("style", f"--width: {width / 72 * 96:.0f}px; aspect-ratio: {width:g} / {height:g}")
    label = ElementTree.Element(f"{{{_SVG}}}title", {"id": f"{name}-title"})
    label.text = plain(title)
    root.insert(0, label)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _remove(root: ElementTree.Element, *path: str) -> None:
    """Remove the elements at `path`."""
    *parents, tag = (f"{{{_SVG}}}{name}" for name in path)
    for parent in root.iterfind("/".join(parents)) if parents else [root]:
        for element in parent.findall(tag):
            parent.remove(element)


def _name_marks(element: ElementTree.Element) -> None:
    """Replace an id set by `add_tooltips` with `<title>` elements of the line and its markers."""
    texts = element.get("id", "").split(SEPARATOR)[1:]
    if not texts:
        return
    del element.attrib["id"]
    marks = list(element.iter(f"{{{_SVG}}}use"))
    titles = zip(marks, texts[1:], strict=True) if len(marks) == len(texts) - 1 else ()  # some may be outside the axes
    for place, text in [*titles, *([(element, texts[0])] if texts[0] else [])]:
        title = ElementTree.Element(f"{{{_SVG}}}title")
        title.text = text
        place.insert(0, title)


def _rewrite(element: ElementTree.Element, name: str) -> None:
    for key, value in element.attrib.items():
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{_XLINK}}}href":
            value = f"#{name}-{value.removeprefix('#')}"
        elif key == "style":
            value = _FONT.sub(_font, value)
        value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
        element.set(key, _COLOR.sub(lambda match: f"var({_VARIABLES[match[0]]})", value))


def _font(match: re.Match[str]) -> str:
    weight = f"; font-weight: {match['weight']}" if match["weight"] else ""
    return f"font-size: {match['size']}px{weight}"
