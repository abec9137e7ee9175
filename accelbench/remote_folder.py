"""Folders in object stores and other remote file systems, by fsspec: list, download, write.

The content of a store is untrusted: the caller chooses the local file of each download, a download has the listed size,
and every request has a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from accelbench.errors import UserError, reason_of
from accelbench.profiling.machine.packages import install_extra

URL = re.compile(r"(?P<protocol>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
RESPONSE_S = 30.0
"""Time limit of a request in seconds, without the time for its data."""
MIN_BYTES_PER_S = 1 << 18
"""Minimum rate of the data of a request."""
REQUEST_BYTES, BATCH_BYTES, BATCH_FILES = 4 << 20, 16 << 20, 256
"""Maximum size of one read, and maximum size and number of the reads that are sent together."""
R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True)
class RemoteFile:
    """File of a remote folder, as listed."""

    path: str
    """Path in the remote file system."""
    name: str
    """Path relative to the folder; empty if the URL is the URL of this file."""
    size: int
    """Size in bytes; −1 if the file system does not list it."""


def local_name(source: str) -> str | None:
    """Return the local path of a `file://` URL, or the source unchanged; None for a URL of another file system."""
    match = URL.match(source)
    if match is None:
        return source
    return source[match.end() :] if match["protocol"].lower() == "file" else None


class RemoteFolder:
    """Folder or file at a URL; an error of the file system or a missing response raises `UserError`."""

    def __init__(self, url: str) -> None:
        self.url = re.sub(r"(//[^/@:]*):[^/@]*@", r"\1@", url.rstrip("/"))  # without a password, for messages
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError:
            raise UserError(f"{self.url}: fsspec is not installed: {install_extra('s3')}") from None
        self._system, root = self._request(lambda: url_to_fs(url))
        self._root = str(root).rstrip("/")

    def files(self) -> list[RemoteFile]:
        """Return all files below the folder, or the file itself, sorted by name."""
        system, root = self._system, self._root
        listed: dict[str, dict[str, Any]] = self._request(
            lambda: {path: facts or system.info(path) for path, facts in system.find(root, detail=True).items()}
        )
        if not listed:
            self._request(self._list_root)
        found = []
        for path, facts in listed.items():
            if facts.get("type", "file") == "file" and (path == root or path.startswith(f"{root}/")):
                size = facts.get("size")
                found.append(RemoteFile(path, path[len(root) + 1 :], size if isinstance(size, int) else -1))
        return sorted(found, key=lambda file: file.name)

    def download(self, targets: Mapping[Path, RemoteFile]) -> dict[Path, str]:
        """Download each file to its target, a new file, and return the reasons of the failed downloads by target.

        A failed download leaves a partial file or none. Raises UserError if the file system does not respond.
        """
        failed: dict[Path, str] = {}
        for batch in batches(_reads(targets), lambda read: read.size):
            paths, starts, ends = ([getattr(read, name) for read in batch] for name in ("path", "start", "end"))
            read_all = partial(self._system.cat_ranges, paths, starts, ends, on_error="return")
            contents = self._request(read_all, sum(read.size for read in batch))
            for read, content in zip(batch, contents, strict=True):
                if isinstance(content, FileNotFoundError | PermissionError):
                    failed[read.target] = reason_of(content)
                elif isinstance(content, Exception):
                    raise self._problem(content)
                elif len(content) != read.size:
                    failed[read.target] = "its size changed during the download"
                elif read.target not in failed:
                    with read.target.open("ab") as file:
                        file.write(content)
        return failed

    def url_of(self, name: str) -> str:
        """Return the URL of a file or folder below this one, or of this one if the name is empty."""
        return f"{self.url}/{name}" if name else self.url

    def write(self, content: bytes, name: str = "") -> str:
        """Write a file in the folder, or at the URL itself, and return its URL; an existing file is replaced."""
        path, url = self._join(name)
        self._request(lambda: self._system.pipe_file(path, content), len(content))
        return url

    def upload(self, file: Path, name: str) -> str:
        """Copy a local file to the folder and return its URL; raise UserError if it already exists."""
        path, url = self._join(name)
        if self._request(lambda: self._system.exists(path)):
            raise UserError(f"{url} already exists: remove it, or choose another name")
        self._request(lambda: self._system.put_file(str(file), path), file.stat().st_size)
        return url

    def _list_root(self) -> None:
        """List the folder itself, since `find` of some file systems ignores errors such as a refused connection."""
        with suppress(FileNotFoundError, NotADirectoryError):
            self._system.ls(self._root, detail=False)

    def _join(self, name: str) -> tuple[str, str]:
        return (f"{self._root}/{name}" if name else self._root), self.url_of(name)

    def _request(self, request: Callable[[], R], size: int = 0) -> R:
        """Return the result of a request with this size of its data in bytes; raise UserError after its time limit.

        The request runs in a daemon thread, which remains if it never ends.
        """
        limit = RESPONSE_S + size / MIN_BYTES_PER_S
        outcome: Future[R] = Future()

        def run() -> None:
            try:
                outcome.set_result(request())
            except Exception as error:  # noqa: BLE001 - file systems raise exceptions of their own libraries
                outcome.set_exception(error)

        Thread(target=run, daemon=True).start()
        if not wait([outcome], limit).done:
            raise UserError(f"{self.url}: no response within {limit:.0f} s: check the address and the network")
        try:
            return outcome.result()
        except Exception as error:
            raise self._problem(error) from error

    def _problem(self, error: Exception) -> UserError:
        reason = " ".join(reason_of(error).split()) or type(error).__name__
        return UserError(f"{self.url}: {reason}{self._remedy() if isinstance(error, ImportError) else ''}")

    def _remedy(self) -> str:
        """Return the command that installs the package of the URL's protocol, as the end of a message."""
        from fsspec.registry import known_implementations

        match = URL.match(self.url)
        protocol = match["protocol"].lower() if match else ""
        if protocol == "s3":
            return f": {install_extra('s3')}"
        package = known_implementations.get(protocol, {}).get("class", "fsspec").partition(".")[0]
        return f": pip install {package}" if package != "fsspec" else ""


def batches(items: Iterable[S], size_of: Callable[[S], int]) -> Iterator[list[S]]:
    """Yield the items in order in lists of at most `BATCH_FILES` items and, unless there is only one, `BATCH_BYTES`."""
    batch: list[S] = []
    size = 0
    for item in items:
        if batch and (len(batch) == BATCH_FILES or size + size_of(item) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch


class _Read(NamedTuple):
    target: Path
    path: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def _reads(targets: Mapping[Path, RemoteFile]) -> Iterator[_Read]:
    """Yield the reads of each file in order; an empty file is created instead."""
    for target, file in targets.items():
        if file.size <= 0:
            target.touch()
        for start in range(0, file.size, REQUEST_BYTES):
            yield _Read(target, file.path, start, min(start + REQUEST_BYTES, file.size))
