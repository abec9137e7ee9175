"""Runs in one file: a compressed tar archive with a folder for each run, which is read wherever a run is read."""

from __future__ import annotations

import re
from pathlib import Path

PART = re.compile(r"(?P<pack>.+)\.part(?P<number>[1-9]\d*)of(?P<count>[1-9]\d*)")
"""The name of a part of a pack."""
CHUNK = 1 << 20


def written_parts(pack: Path) -> list[Path]:
    """Return the files that a pack of this name was cut into, whichever are there."""
    found = [path for path in pack.parent.glob(f"{pack.name}.part*") if PART.fullmatch(path.name)]
    return sorted(found, key=lambda path: tuple(map(int, re.findall(r"\d+", path.name.rpartition(".part")[2])))[::-1])
