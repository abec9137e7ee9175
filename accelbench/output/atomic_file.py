"""Files that a reader finds whole: written beside their place, and put there in one step."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from accelbench.errors import RunBroken


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` make a file beside `path`, then put it there in one step; a reader sees the old or the new one.

    RunBroken is raised where the file cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write(new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise RunBroken(f"cannot write {path}: {error.strerror or error}; the records are kept") from error
    return path
