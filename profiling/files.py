"""Safe access to files that another program or user may have made: runs, bundles, settings, suites, references.

Only regular files up to a size limit are read, so that a FIFO, a device or a sparse file of terabytes is an error and
never a hang. A new file is written under a random name and then renamed. A file is appended to only if it is neither a
symbolic link nor has several hard links.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

MAX_TEXT_BYTES = 1 << 20
"""Maximum size in bytes of a settings file, a suite, a study or a table of references."""
MAX_LINE_BYTES = 64 << 20
"""Maximum length in bytes of a line of `records.jsonl`."""


class Refused(OSError):
    """Raised for a file that is not safe to read or write; `strerror` is the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))


def open_regular(path: Path, max_bytes: int | None = None, *, follow_link: bool = False) -> BufferedReader:
    """Open a regular file for reading.

    Raises `Refused` for a directory, a device, a FIFO, a file larger than `max_bytes`, and, unless `follow_link`, a
    symbolic link; OSError for a file that cannot be opened.
    """
    descriptor = _open(path, os.O_RDONLY | os.O_NONBLOCK, follow_link=follow_link)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused(path, "not a regular file")
        if max_bytes is not None and facts.st_size > max_bytes:
            raise Refused(path, f"{facts.st_size:,} bytes, more than the limit of {max_bytes:,}")
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, max_bytes: int = MAX_TEXT_BYTES, *, follow_link: bool = False) -> bytes:
    """Return the content of a regular file; errors as of `open_regular`."""
    with open_regular(path, max_bytes, follow_link=follow_link) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:  # the file grew, or its size is unknown before reading
        raise Refused(path, f"more than the limit of {max_bytes:,} bytes")
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file chosen by the user; a symbolic link is followed.

    Raises OSError for a file that cannot be read, and ValueError for content that is not TOML, is nested too deeply, or
    has a number of thousands of digits.
    """
    content = read_regular(path, follow_link=True)
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def lines_of(file: BinaryIO, path: Path, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file, with line ends. Raises `Refused` for a line longer than `max_bytes`."""
    while line := file.readline(max_bytes + 1):
        if len(line) > max_bytes:
            raise Refused(path, f"a line of more than {max_bytes:,} bytes")
        yield line


def open_for_appending(path: Path, permissions: int = 0o666) -> int:
    """Open a regular file for reading and appending, create it if needed, and return its descriptor.

    Raises `Refused` for a symbolic link, a file with several hard links, and anything but a regular file.
    """
    descriptor = _open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, permissions)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        os.close(descriptor)
        raise Refused(path, "not a regular file" if facts.st_nlink <= 1 else "a file with several hard links")
    return descriptor


def replace_file(path: Path, write: Callable[[Path], object], *, sync: bool = False) -> None:
    """Call `write` with the path of a new file in the same folder, and rename that file to `path`.

    A reader finds either the old or the new content. On an error the new file is removed. With `sync`, the content is
    written to the disk before the renaming.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        write(new)
        if sync:
            os.fsync(descriptor)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def find_link(folder: Path) -> Path | None:
    """Return a symbolic link anywhere in a folder; None if there is none."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(place, name)):
                return Path(place, name)
    return None


def _open(path: Path, flags: int, permissions: int = 0o666, *, follow_link: bool = False) -> int:
    try:
        return os.open(path, flags | (0 if follow_link else os.O_NOFOLLOW) | os.O_CLOEXEC, permissions)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_link:
            raise Refused(path, "a symbolic link") from None
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise Refused(path, "not a regular file") from None
        raise
