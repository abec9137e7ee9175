"""Bundles: compressed tar archives with a directory for each run, accepted wherever a run is read."""

from __future__ import annotations

import re
from pathlib import Path

PART = re.compile(r"(?P<pack>.+)\.part(?P<number>[1-9]\d*)of(?P<count>[1-9]\d*)")
"""Pattern of the name of a bundle's part."""
CHUNK = 1 << 20


def written_parts(pack: Path) -> list[Path]:
    """Return the existing part files of a bundle with this name, in order."""
    found = [path for path in pack.parent.glob(f"{pack.name}.part*") if PART.fullmatch(path.name)]
    return sorted(found, key=lambda path: tuple(map(int, re.findall(r"\d+", path.name.rpartition(".part")[2])))[::-1])
