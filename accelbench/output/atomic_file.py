"""Atomic writes: a file is written under a temporary name and renamed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from accelbench.errors import RunBroken


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Call `write` with a temporary path next to `path`, then rename that file to `path`.

    Raises RunBroken if the file cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write(new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise RunBroken(f"cannot write {path}: {error.strerror or error}; the records are kept") from error
    return path
