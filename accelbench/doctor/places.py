"""Checks of the folders that accelbench writes to, and of their free space."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

from accelbench.doctor.check import Check
from accelbench.profiling.text import format_bytes

RUN_BYTES = 2 << 30
"""Space that a run may need in bytes: ten traces of up to 200 MB each."""


def check_home() -> Check:
    home = os.path.expanduser("~")
    if home == "~" or not Path(home).is_dir():
        return Check("home directory", "missing", "does not exist", "export HOME=$(mktemp -d)")
    return _writable("home directory", Path(home), "export HOME=$(mktemp -d)")


def check_cache() -> Check:
    return _writable("cache directory", platformdirs.user_cache_path("accelbench"), "export XDG_CACHE_HOME=DIRECTORY")


def check_temporary() -> Check:
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        return Check("temporary directory", "missing", "no writable folder", "export TMPDIR=DIRECTORY")
    return _writable("temporary directory", Path(place), "export TMPDIR=DIRECTORY")


def check_runs(place: Path) -> Check:
    """Check that runs, including traces, can be written to the folder."""
    advice = "use accelbench run --out DIRECTORY on a disk with free space"
    found = _writable("space for runs", place, advice)
    if found.status != "ok":
        return found
    free = shutil.disk_usage(_existing(place)).free
    room = f"{format_bytes(free)} free for {place}"
    if free >= RUN_BYTES:
        return Check("space for runs", "ok", room)
    cost = f"a run with --trace may need {format_bytes(RUN_BYTES)}, and ends if the disk is full"
    return Check("space for runs", "warn", room, advice, cost)


def _writable(name: str, place: Path, advice: str) -> Check:
    """Check that the folder is writable, or can be created."""
    existing = _existing(place)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Check(name, "ok", f"{place} {'is writable' if existing == place else 'can be created'}")
    return Check(name, "warn", f"{place} is not writable", advice)


def _existing(place: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next(folder for folder in (place, *place.absolute().parents) if folder.exists())
