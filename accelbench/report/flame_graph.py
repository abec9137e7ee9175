"""Flame graph in the page, from the stacks that a run has kept, without accelbench's own frames."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from accelbench.output.plain_text import plain
from accelbench.profiling.files import read_regular
from accelbench.profiling.host.flamegraph import MARGIN, WIDTH, draw_boxes
from accelbench.profiling.host.stacks import Stack, Stacks, read_speedscope
from accelbench.profiling.records.record import Profile

MAX_BYTES = 20_000_000
"""Maximum size of a file of stacks that is read."""
MAX_DEPTH = 48
"""Maximum number of frames drawn above each other."""
NARROWEST = 3.0
"""Width in pixels below which boxes are omitted, which limits the size of the page."""
OWN = re.compile(r"accelbench/(?!workloads/[^/]+$|kernels/(?!lib/))")
"""Start of the file names of the frames that are left out: all of accelbench except models and kernels."""

_SVG = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" class="plot" role="img" '
    'font-family="ui-monospace, monospace" font-size="11" '
    'aria-labelledby="{name}-title" style="--width: {width:g}px; aspect-ratio: {width:g} / {height:g}">'
    '<title id="{name}-title">{title}</title>{boxes}</svg>'
)


def flame_graph(profile: Profile, folder: Path, name: str, title: str) -> Markup | None:
    """Return the flame graph of a profile in the run's directory `folder`; None if no readable stacks were kept."""
    file = profile.host.files.get("speedscope") if profile.host and profile.host_folder else None
    if file is None:
        return None
    path = folder / (profile.host_folder or "") / file
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return None
        stacks = without_own_frames(read_speedscope(read_regular(path, MAX_BYTES).decode()))
    except (OSError, ValueError):
        return None
    if not stacks:
        return None
    height, boxes = draw_boxes(stacks, MARGIN, NARROWEST)
    drawn = Markup("\n".join(boxes))  # `draw_boxes` escapes all names
    return _SVG.format(width=WIDTH, height=height, name=name, title=plain(title), boxes=drawn)


def without_own_frames(stacks: Stacks) -> Counter[Stack]:
    """Return the stacks without accelbench's frames and without the frames that started it, at most `MAX_DEPTH` deep.

    Stacks with no other frames are omitted.
    """
    found: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        own = [OWN.match(frame.file) is not None for frame in stack.frames]
        first = own.index(True) if True in own else 0
        # A script calls accelbench's loop itself: its frames before the loop are not a start of accelbench.
        frames = stack.frames[first:] if stack.frames[:first] and _starts(stack) else stack.frames
        kept = tuple(frame for frame in frames if not OWN.match(frame.file))[:MAX_DEPTH]
        if kept:
            found[replace(stack, frames=kept)] += count
    return found


def _starts(stack: Stack) -> bool:
    """Return whether the stack begins in Python's own start of a module or of a process."""
    return stack.frames[0].file.startswith(("<frozen runpy>", "runpy.py", "multiprocessing/", "threading.py"))
