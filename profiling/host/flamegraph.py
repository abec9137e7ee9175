"""Flame graph as one SVG file, without scripts or network access.

Each box is a function, drawn above its caller; its width is its number of samples (Gregg, "The Flame Graph",
Communications of the ACM 59 (2016)). Its tooltip has the full name and the share. The suite's own threads, which mostly
wait, are omitted; a note in the graph names them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from accelbench.profiling.files import replace_file
from accelbench.profiling.host.rules import SUITE_THREADS
from accelbench.profiling.host.stacks import Stack, Stacks

WIDTH, ROW, MARGIN, HEAD = 1200.0, 18, 10, 52
CHARACTER = 6.6
"""Width of a character of the 11-pixel monospaced font, in pixels."""
NARROWEST = 0.3
"""Width in pixels below which boxes are omitted, to keep the file small."""
MIN_CHARACTERS = 3

Kind = Literal["thread", "python", "native"]
HUES: dict[Kind, tuple[int, int]] = {"thread": (210, 20), "python": (20, 65), "native": (165, 35)}
"""Hue in degrees and saturation in percent, by kind."""
LEGEND: dict[Kind, str] = {"thread": "thread", "python": "Python", "native": "C, C++"}

UNPRINTABLE = dict.fromkeys((*range(32), 127, *range(55296, 57344), 65534, 65535), "�")
"""Characters that XML 1.0 does not allow, with their replacement."""


@dataclass
class FlameNode:
    """A function with its callees: one node of the call tree."""

    label: str
    kind: Kind
    count: int = 0
    calls: dict[str, FlameNode] = field(default_factory=dict)

    def child(self, label: str, kind: Kind) -> FlameNode:
        return self.calls.setdefault(label, FlameNode(label, kind))


@dataclass(frozen=True)
class FlameBox:
    """A node with its position: left edge in samples, and depth."""

    box: FlameNode
    left: int
    depth: int


def write_flamegraph(stacks: Stacks, path: Path, title: str) -> None:
    svg = draw_flamegraph(stacks, title)
    replace_file(path, lambda new: new.write_text(svg, encoding="utf-8"))


def draw_flamegraph(stacks: Stacks, title: str) -> str:
    """Return the SVG document of these stacks, without the suite's own threads."""
    height, boxes = draw_boxes(stacks)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height}" '
            f'viewBox="0 0 {WIDTH:.0f} {height}" font-family="ui-monospace, monospace" font-size="11">',
            f'<rect width="100%" height="100%" fill="#fff"/><text x="{MARGIN}" y="22" font-size="15">'
            f"{_clean(title)}</text>",
            *_legend(sum(_of_the_worker(stacks).values()), _omitted(stacks)),
            *boxes,
            "</svg>\n",
        )
    )


def draw_boxes(stacks: Stacks, head: int = HEAD, narrowest: float = NARROWEST) -> tuple[int, list[str]]:
    """Return the height of the graph in pixels, and its boxes as SVG elements below a margin of `head` pixels.

    The suite's own threads, and boxes that are narrower than `narrowest` pixels, are omitted.
    """
    root = build_tree(_of_the_worker(stacks))
    scale = (WIDTH - 2 * MARGIN) / max(1, root.count)
    placed = list(_place(root, 0, 0, narrowest / scale))
    height = head + (1 + max(place.depth for place in placed)) * ROW + MARGIN
    return height, [_draw(place, root.count, scale, height) for place in placed]


def _of_the_worker(stacks: Stacks) -> dict[Stack, int]:
    return {stack: count for stack, count in stacks.items() if stack.thread_name not in SUITE_THREADS}


def build_tree(stacks: Stacks) -> FlameNode:
    """Merge all stacks by their common frames from the root; callees are sorted by name."""
    root = FlameNode("all", "thread")
    for stack, count in sorted(stacks.items(), key=lambda item: _path(item[0])):
        root.count += count
        box = root
        for label, kind in _path(stack):
            box = box.child(label, kind)
            box.count += count
    return root


def _path(stack: Stack) -> list[tuple[str, Kind]]:
    thread: list[tuple[str, Kind]] = []
    if stack.thread is not None:
        thread = [(f"{stack.thread_name or 'thread'} ({stack.thread})", "thread")]
    return thread + [(str(frame), "python" if frame.is_python else "native") for frame in stack.frames]


def _place(box: FlameNode, left: int, depth: int, narrowest: float) -> Iterator[FlameBox]:
    pending = [FlameBox(box, left, depth)]  # no recursion: Python's own stacks may be a thousand deep
    while pending:
        place = pending.pop()
        yield place
        edge = place.left
        for callee in place.box.calls.values():
            if callee.count >= narrowest:
                pending.append(FlameBox(callee, edge, place.depth + 1))
            edge += callee.count


def _draw(place: FlameBox, total: int, scale: float, height: int) -> str:
    box, x, width = place.box, MARGIN + place.left * scale, place.box.count * scale
    y = height - MARGIN - (place.depth + 1) * ROW
    share = box.count / total if total else 0.0
    return (
        f"<g><title>{_clean(box.label)}: {share:.1%} ({box.count:,} of {total:,})</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{max(0.0, width - 0.5):.2f}" height="{ROW - 1}" rx="1" '
        f"fill={quoteattr(_color(box))}/>{_text(box.label, x, y, width)}</g>"
    )


def _text(label: str, x: float, y: int, width: float) -> str:
    """Return the name, cut to the width of the box, as SVG."""
    room = int((width - 6) / CHARACTER)
    if room < MIN_CHARACTERS:
        return ""
    shown = label if len(label) <= room else label[: room - 1] + "…"
    return f'<text x="{x + 3:.2f}" y="{y + 12}" pointer-events="none">{_clean(shown)}</text>'


def _color(box: FlameNode) -> str:
    """Return the colour of a box; equal names have equal colours in every graph."""
    hue, saturation = HUES[box.kind]
    shade = zlib.crc32(box.label.encode(errors="replace"))
    return f"hsl({hue + shade % 25}, {saturation}%, {72 + shade // 25 % 12}%)"


def _omitted(stacks: Stacks) -> str:
    """Return a note with the omitted threads of the suite and their share of all stacks."""
    own = {stack.thread_name: 0 for stack in stacks if stack.thread_name in SUITE_THREADS}
    count = sum(count for stack, count in stacks.items() if stack.thread_name in own)
    return (
        f"; omitted: accelbench's threads {', '.join(sorted(own))} ({count / sum(stacks.values()):.0%})" if own else ""
    )


def _legend(total: int, omitted: str) -> Iterator[str]:
    note = f"{total:,} stacks; width: number of samples{omitted}"
    yield f'<text x="{MARGIN}" y="40" fill="#555">{note}</text>'
    for place, (kind, label) in enumerate(LEGEND.items()):
        hue, saturation = HUES[kind]
        x = WIDTH - MARGIN - 80 * (len(LEGEND) - place)
        yield (
            f'<rect x="{x:.0f}" y="30" width="12" height="12" fill="hsl({hue + 12}, {saturation}%, 78%)"/>'
            f'<text x="{x + 16:.0f}" y="40">{label}</text>'
        )


def _clean(text: str) -> str:
    return escape(text.translate(UNPRINTABLE))
