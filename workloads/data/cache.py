"""Data folder, and SHA-256 verification of its files."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from pathlib import Path

CACHE_VARIABLE = "ACCELBENCH_DATA"


NOT_DATA = {
    *("#recycle", "$RECYCLE.BIN", "@eaDir", "System Volume Information", "Thumbs.db"),
    *("__MACOSX", "__pycache__", "desktop.ini", "lost+found"),
}
"""Files and folders that operating systems, file servers and Python add to folders."""


class DataError(Exception):
    """A data set is not available; the message is one line with the remedy."""


def is_data(name: str) -> bool:
    """Return whether a file or folder of this name belongs to the data; hidden ones do not."""
    return not name.startswith(".") and name not in NOT_DATA


def cache_directory() -> Path:
    """Return the data folder, $ACCELBENCH_DATA or one in the user's cache; `DataError` without a home directory."""
    from platformdirs import user_cache_path

    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        path = Path(chosen).expanduser().absolute() if chosen else user_cache_path("accelbench")
    except RuntimeError:  # no home directory; older versions of platformdirs return a relative path instead
        path = Path()
    if not path.is_absolute():
        raise DataError(f"there is no home directory to keep data in: set {CACHE_VARIABLE} to a folder")
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file in hexadecimal; OSError for pipes and devices, which may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_checked(path: Path, sha256: str, name: str) -> io.BytesIO:
    """Return the content of a file of the data set `name`, read once, so that the verified bytes are those used.

    `DataError` if its SHA-256 differs.
    """
    hint = f"; 'accelbench data fetch {name}' replaces it"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{error}{hint}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(f"{path} is not the published file: its SHA-256 is {found}, expected {sha256}{hint}")
    return io.BytesIO(content)
