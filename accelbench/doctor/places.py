"""The folders that are written to, and the room in them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

from accelbench.doctor.check import Check
from accelbench.profiling.text import format_bytes

RUN_BYTES = 2 << 30
"""The bytes that a run may want: traces of the longest trainings have 200 MB each, and a suite has ten of them."""


def check_home() -> Check:
    home = os.path.expanduser("~")
    if home == "~" or not Path(home).is_dir():
        return Check("home directory", "missing", "there is none", "export HOME=$(mktemp -d)")
    return _writable("home directory", Path(home), "export HOME=$(mktemp -d)")


def check_cache() -> Check:
    return _writable("cache directory", platformdirs.user_cache_path("accelbench"), "export XDG_CACHE_HOME=DIRECTORY")


def check_temporary() -> Check:
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        return Check("temporary directory", "missing", "no folder can be written", "export TMPDIR=DIRECTORY")
    return _writable("temporary directory", Path(place), "export TMPDIR=DIRECTORY")


def check_runs(place: Path) -> Check:
    """Check that runs can be written to the folder, traces included."""
    advice = "accelbench run --out DIRECTORY, on a disk with room"
    found = _writable("room for runs", place, advice)
    if found.status != "ok":
        return found
    free = shutil.disk_usage(_there(place)).free
    room = f"{format_bytes(free)} free for {place}"
    if free >= RUN_BYTES:
        return Check("room for runs", "ok", room)
    cost = f"a run with --trace may want {format_bytes(RUN_BYTES)}, and breaks off where the disk is full"
    return Check("room for runs", "warn", room, advice, cost)


def _writable(name: str, place: Path, advice: str) -> Check:
    """Check that the folder can be written, or be made where it is not there yet."""
    there = _there(place)
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check(name, "ok", f"{place} can be {'written' if there == place else 'made'}")
    return Check(name, "warn", f"{place} cannot be written", advice)


def _there(place: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return next(folder for folder in (place, *place.absolute().parents) if folder.exists())
