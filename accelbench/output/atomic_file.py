"""Atomic writes: a file is written under a temporary name and renamed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from accelbench.errors import RunBroken, reason_of
from accelbench.profiling.files import replace_file


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Call `write` with a temporary path next to `path`, then rename that file to `path`.

    Raises RunBroken if the file cannot be written.
    """
    try:
        replace_file(path, write)
    except OSError as error:
        raise RunBroken(f"cannot write {path}: {reason_of(error)}; the records are kept") from error
    return path
