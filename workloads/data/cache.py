"""The place of fetched data, and the check that it is what it should be."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CACHE_VARIABLE = "ACCELBENCH_DATA"


class DataError(Exception):
    """This data set cannot be had; the message is one line that says what to do."""


def cache_directory() -> Path:
    """Return the folder of fetched files, $ACCELBENCH_DATA or one in the user's cache; `DataError` without a home."""
    from platformdirs import user_cache_path

    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        path = Path(chosen).expanduser().absolute() if chosen else user_cache_path("accelbench")
    except RuntimeError:  # no home: Python's word for it, and platformdirs'; older versions answer with a relative path
        path = Path()
    if not path.is_absolute():
        raise DataError(f"there is no home directory to keep data in: set {CACHE_VARIABLE} to a folder")
    return path


@contextmanager
def open_regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; OSError for what is none: a pipe or a device may wait, or send, for ever."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        yield file


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits; OSError for what is no regular file."""
    with open_regular(path) as file:
        return sha256_of_open(file)


def sha256_of_open(file: IO[bytes]) -> str:
    """Return the SHA-256 of what is still to be read of an open file, in hexadecimal digits."""
    sha256 = hashlib.sha256()
    while block := file.read(1 << 18):
        sha256.update(block)
    return sha256.hexdigest()


def check(path: Path, sha256: str) -> None:
    """Raise DataError unless the file has that SHA-256."""
    _compare(path, sha256_of(path), sha256)


def read_checked(path: Path, sha256: str, name: str) -> io.BytesIO:
    """Return the file's content, read once, so that what was checked is what is used; `DataError` if it is another."""
    try:
        content = path.read_bytes()
        _compare(path, hashlib.sha256(content).hexdigest(), sha256)
    except (DataError, OSError) as error:
        raise DataError(f"{error}; 'accelbench data fetch {name}' replaces it") from error
    return io.BytesIO(content)


def _compare(path: Path, found: str, sha256: str) -> None:
    if found != sha256:
        raise DataError(f"{path} is not the file it should be: its SHA-256 is {found}, expected {sha256}")
