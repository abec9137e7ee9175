"""Fetching of data sets by one process at a time, and verification of fetched data."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accelbench.profiling.text import suggest
from accelbench.workloads.data.cache import CACHE_VARIABLE, DataError, cache_directory, sha256_of
from accelbench.workloads.data.download import Progress, download
from accelbench.workloads.data.sources import OWN_FOLDERS, SOURCES, SUMS, Source
from accelbench.workloads.data.unpack import (
    archive_differences,
    changed_files,
    some,
    unknown_folder,
    unlisted_files,
    unpack,
)

HINTS = {
    errno.ENOSPC: f"free some space, or set {CACHE_VARIABLE} to a larger disk",
    errno.EDQUOT: f"free some space, or set {CACHE_VARIABLE} to a larger disk",
    errno.EACCES: f"set {CACHE_VARIABLE} to a folder that you may write to",
    errno.EROFS: f"set {CACHE_VARIABLE} to a folder that you may write to",
}

USABLE = ("complete", "extended")
"""States of a data set that can be used for training."""


@dataclass(frozen=True)
class State:
    """State of a data set on this machine."""

    source: Source
    word: Literal["complete", "extended", "corrupt", "partial", "absent"]
    """`extended`: complete and unchanged, with additional files in its folder."""
    detail: str
    """Path of the data set, description of its damage, or amount downloaded."""


def find(name: str) -> Source:
    """Return the data set `name`; `DataError` if no data set of that name can be fetched."""
    if name in SOURCES:
        return SOURCES[name]
    if name in OWN_FOLDERS:
        own = OWN_FOLDERS[name]
        raise DataError(f"{name} is not fetched but holds your own images: copy them to {own.path}/{own.layout}")
    raise DataError(f"unknown data set {name!r}{suggest(name, SOURCES)}")


def fetch(name: str, given: Sequence[Path] = (), progress: Progress = lambda what, done, total: None) -> Path:
    """Download the missing files of the data set, or copy them from `given` files or folders, and return its path.

    Given files are identified by their SHA-256. Concurrent fetches of a data set wait for the first one.
    """
    source = find(name)
    try:
        if state(source).word in USABLE:
            return source.path
        local = _identify(source, given)
        _make_folder(cache_directory())
        with _locked(source, progress):
            if state(source).word not in USABLE:  # another process may have fetched it
                _fetch_files(source, local, progress)
    except OSError as error:
        hint = f": {HINTS[error.errno]}" if error.errno in HINTS else ""
        where = error.filename or source.path.parent
        raise DataError(f"cannot fetch {name}: {error.strerror or error}: {where}{hint}") from error
    return source.path


def _fetch_files(source: Source, local: Mapping[str, tuple[Path, str]], progress: Progress) -> None:
    if source.folder and os.path.lexists(source.path) and not source.present:
        raise DataError(unknown_folder(source))
    for file in source.files:
        _make_folder(file.path.parent)
        given, sha256 = local.get(file.name, (None, file.sha256))
        if given or not (os.path.isfile(file.path) and sha256_of(file.path) in file.sums):
            download(file, sha256, given, progress)
        file.path.chmod(0o644)  # temporary files are private, but a cluster's data is for all users
    if source.folder:
        unpack(source, progress)


def _identify(source: Source, given: Sequence[Path]) -> dict[str, tuple[Path, str]]:
    """Return the given path and SHA-256 of each file of the data set, by name; `DataError` for an unrelated path."""
    wanted = {sum_: file for file in source.files for sum_ in file.sums}
    names = {name for file in source.files for name in (file.path.name, file.url.rsplit("/", 1)[-1])}
    found: dict[str, tuple[Path, str]] = {}
    for path in given:
        candidates = [path / name for name in sorted(names) if (path / name).is_file()] if path.is_dir() else [path]
        if not candidates:
            raise DataError(f"{path} contains none of {', '.join(sorted(names))}")
        for candidate in candidates:
            sha256 = sha256_of(candidate)
            if sha256 not in wanted:
                expected = " or ".join(wanted)
                raise DataError(f"{candidate} is not {source.name}: its SHA-256 is {sha256}, expected {expected}")
            found[wanted[sha256].name] = candidate, sha256
    return found


def _make_folder(folder: Path) -> None:
    """Make a folder readable by all users, unless it exists."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


@contextmanager
def _locked(source: Source, progress: Progress) -> Iterator[None]:
    from filelock import Timeout

    from accelbench.profiling.locks import acquire

    path = cache_directory() / f".{source.name}.lock"
    try:
        # Writable by all, so that in a shared folder each user can lock a set that another has fetched.
        lock = acquire(path, mode=0o666)
    except Timeout:
        progress(f"waiting for another process to fetch {source.name}", 0, None)
        lock = acquire(path, mode=0o666, blocking=True)
    try:
        yield
    finally:
        lock.release()


def state(source: Source, *, read: bool = True) -> State:
    """Return the state of a data set; by default all bytes are verified, with `read=False` only its presence."""
    if not source.present:
        return _incomplete(source)
    if not read:
        return State(source, "complete", str(source.path))
    if wrong := _wrong(source):
        return State(source, "corrupt", f"{some(wrong)}: 'accelbench data fetch {source.name}' repairs it")
    if source.folder and (foreign := unlisted_files(source)):
        return State(source, "extended", f"{source.path} is complete, and also contains {some(foreign)}")
    gone = not all(os.path.lexists(file.path) for file in source.files)
    by = f", verified with the checksums from unpacking: {SUMS}" if gone else ""
    return State(source, "complete", f"{source.path}{by}")


def _wrong(source: Source) -> list[str]:
    """Return descriptions of missing and changed files of a data set."""
    wrong = changed_files(source) if source.folder else []
    archives = []
    for file in source.files:
        if source.folder and not os.path.lexists(file.path):
            continue  # archives may be deleted after unpacking
        try:
            if sha256_of(file.path) in file.sums:
                archives.append(file)
            else:
                wrong.append(f"{file.name} was changed")
        except OSError as error:
            wrong.append(f"{file.name}: {error.strerror}")
    return wrong if wrong or not source.folder else archive_differences(source, archives)


def _incomplete(source: Source) -> State:
    try:
        os.scandir(cache_directory()).close()
    except FileNotFoundError:
        return State(source, "absent", "not fetched")
    except OSError as error:
        return State(source, "absent", f"cannot read {error.filename}: {error.strerror}")
    except DataError as error:
        return State(source, "absent", str(error))
    if source.folder and os.path.lexists(source.path):
        return State(source, "corrupt", unknown_folder(source))
    arrived = [path for file in source.files for path in (file.part, file.path) if os.path.isfile(path)]
    if not arrived:
        return State(source, "absent", "not fetched")
    of = f" of {source.size / 1e6:.1f}" if source.size else ""
    done = sum(path.stat().st_size for path in arrived) / 1e6
    return State(source, "partial", f"{done:.1f}{of} MB downloaded: 'accelbench data fetch {source.name}' continues")
