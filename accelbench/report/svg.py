"""A matplotlib figure as SVG to stand inside a page: themed by the page's CSS, accessible, and the same every time.

Colours are written as stand-ins that become CSS variables, so that one drawing is legible in light and in dark; text
stays text, in the page's own font; and every id carries the figure's name, since a page has one space of ids.
Matplotlib is imported by what draws: the terminal imports the sections too, and draws nothing.
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
"""The width of a drawing in inches; the page scales a drawing down, never up."""
ROW = 0.19
"""The height in inches of a row of a legend below a drawing."""
INK, MUTED, GRID, SURFACE = "#010101", "#020202", "#030303", "#040404"
SERIES = ("#010001", "#010002", "#010003", "#010004", "#010005", "#010006")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""The markers, one more than the colours, so that the two drawn in turn repeat only after 42 lines."""

TELLS = "¶"
"""The sign between the texts of a line's id, which become what the pointer held over the line and its marks tells."""

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
    """Draw in the page's style, whatever this machine's matplotlib settings are."""
    import matplotlib
    from cycler import cycler

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"axes.prop_cycle": cycler(color=SERIES)})
        yield


def replica_axes(counts: Sequence[int], title: str) -> tuple[Figure, Axes]:
    """Return an empty drawing of what `title` says against these numbers of replicas, marked by the powers of two."""
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
    """Return the name of a value on an axis: `200 GB/s`."""
    reading = read(value, unit)
    return f"{digits(float(reading.value.replace(',', '')), 1)} {reading.unit}"


def legend_height(entries: Sequence[Line2D]) -> float:
    """Return the height in inches of a legend that stands below a drawing."""
    return ROW * math.ceil(len(entries) / _columns(entries))


def legend_below(figure: Figure, legends: Sequence[Sequence[Line2D]]) -> None:
    """Draw legends one above the other at the foot of the figure, the first at the bottom."""
    _, height = figure.get_size_inches()
    bottom = 0.0
    for entries in legends:
        place = {"loc": "lower left", "bbox_to_anchor": (0.07, bottom / height)}
        figure.legend(handles=entries, ncols=_columns(entries), handlelength=2.6, borderpad=0.2, **place)
        bottom += legend_height(entries)


def _columns(entries: Sequence[Line2D]) -> int:
    """Return how many entries fit beside each other."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    return max(1, min(len(entries), int(7.0 / (0.6 + 0.075 * longest))))


def tell(line: Line2D, name: str, marks: Sequence[str]) -> None:
    """Have the pointer held over a line tell its name, and over each of its marks the name and what that mark is."""
    texts = (name, *(f"{name}: {mark}" if name else mark for mark in marks))
    line.set_gid("".join(f"{TELLS}{text.replace(TELLS, ' ')}" for text in texts))


def inline_svg(figure: Figure, name: str, title: str) -> Markup:
    """Return the figure as an `<svg>`; `name` is unique in the page, `title` tells a screen reader what is shown."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(plain(buffer.getvalue()))
    for element in root.iter():
        _name_marks(element)
        _rewrite(element, name)
    _remove(root, "metadata")
    _remove(root, "defs", "style")  # it styles `*`, which inside a page is the whole page; report.css says the same
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
    """Take out the element at the end of the path, wherever the path begins below `root`."""
    *parents, tag = (f"{{{_SVG}}}{name}" for name in path)
    for parent in root.iterfind("/".join(parents)) if parents else [root]:
        for element in parent.findall(tag):
            parent.remove(element)


def _name_marks(element: ElementTree.Element) -> None:
    """Give a line of which `tell` was told, and each of its marks, the titles in place of the id that they stood in."""
    texts = element.get("id", "").split(TELLS)[1:]
    if not texts:
        return
    del element.attrib["id"]
    marks = list(element.iter(f"{{{_SVG}}}use"))
    told = zip(marks, texts[1:], strict=True) if len(marks) == len(texts) - 1 else ()  # outside the figure are none
    for place, text in [*told, *([(element, texts[0])] if texts[0] else [])]:
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
