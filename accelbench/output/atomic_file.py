"""Files that are written completely or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from accelbench.errors import RunBroken
from accelbench.profiling.files import replace_file


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Call `write` with the path of a new file in the same folder, rename that file to `path`, and return `path`.

    RunBroken is raised if the file cannot be written.
    """
    try:
        replace_file(path, write)
    except OSError as error:
        raise RunBroken(f"cannot write {path}: {error.strerror or error}; the records are kept") from error
    return path
