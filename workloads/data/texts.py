"""Text as bytes: the source of the running Python's library, or the user's own text.

Nothing has to be fetched: each Python includes some ten megabytes of source with documentation. Whole files are held
out, so that memorised files do not count; of a single file, the end.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import DataError, cache_directory, is_data

FOLDER = "text"
"""Folder in the data folder that replaces Python's library."""
HELD_OUT = 10
"""One file in `HELD_OUT` is held out, or one byte of a single file."""
NOT_WRITTEN = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test", "lib2to3", "encodings"}
"""Excluded folders of the library: installed packages, and folders that are mostly tables and test cases."""
MOST = 64 << 20
"""Maximum number of bytes used: sixty times the demand of a short training run."""
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Text:
    """Bytes for training, and held-out bytes from other files."""

    source: str
    """Description that identifies the text."""
    train: Bytes
    held_out: Bytes


def load_text(path: Path | None = None) -> Text:
    """Return the text in the folder `path`, by default `text` in the data folder, else of Python's own library.

    In an own folder, hidden and binary files are ignored. `DataError` for a folder without text.
    """
    own = path or _default_folder()
    if own is not None and os.path.lexists(own):
        files = sorted(_own(own))
        name = f"the folder {own.name}"
    else:
        own = Path(sysconfig.get_paths()["stdlib"])
        files = sorted(_written(own))
        name = f"the library of Python {'.'.join(map(str, sys.version_info[:3]))}"
    return split(name, _read(own, files))


def split(name: str, texts: Iterable[tuple[str, bytes]]) -> Text:
    """Split named texts into training bytes and held-out bytes, by whole files.

    The choice depends only on a file's name, so adding a file does not move others. If it leaves a part empty, the last
    tenth of all bytes is held out. `DataError` without text.
    """
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for file, text in texts:
        parts[is_held_out(file)].append(text)
    files = sum(map(len, parts))
    train, held_out = (np.frombuffer(b"".join(part), np.uint8) for part in parts)
    size = len(train) + len(held_out)
    what = f"{len(parts[1])} of {files} files"
    if not len(train) or not len(held_out):
        if size < HELD_OUT:
            raise DataError(f"{name} has {size} bytes of text: too few to train on some and hold out others")
        everything = np.concatenate([train, held_out])
        train, held_out, what = everything[: -(size // HELD_OUT)], everything[-(size // HELD_OUT) :], "the last tenth"
    return Text(f"{size / 1e6:.1f} MB of {name}, {what} held out", train, held_out)


def is_held_out(file: str) -> bool:
    """Return whether a file of that name, relative to its folder, is held out."""
    return sha256(file.encode(errors="replace")).digest()[0] % HELD_OUT == 0


def bits_per_byte(train: Bytes, held_out: Bytes) -> float:
    """Return the held-out cross-entropy of a byte bigram model in bits per byte.

    Unseen pairs fall back to single bytes (Witten and Bell, "The Zero-Frequency Problem", IEEE Transactions on
    Information Theory 37(4), 1991).
    """
    pairs = np.bincount(train[:-1].astype(np.int64) * 256 + train[1:], minlength=1 << 16).reshape(256, 256)
    single = (np.bincount(train, minlength=256) + 1) / (len(train) + 256)
    met, kinds = pairs.sum(axis=1, keepdims=True), (pairs > 0).sum(axis=1, keepdims=True)
    likely = (pairs + np.maximum(kinds, 1) * single) / (met + np.maximum(kinds, 1))
    return float(-np.log2(likely[held_out[:-1], held_out[1:]]).mean())


def _default_folder() -> Path | None:
    try:
        return cache_directory() / FOLDER
    except DataError:
        return None


def _own(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        folders[:] = filter(is_data, folders)
        yield from (Path(path, name) for name in names if is_data(name) and os.path.isfile(Path(path, name)))


def _written(library: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(set(folders) - NOT_WRITTEN)
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _read(folder: Path, files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each text file that is not empty, up to `MOST` bytes in total."""
    taken = 0
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        if text and b"\0" not in text:
            taken += len(text)
            yield file.relative_to(folder).as_posix(), text
        if taken >= MOST:
            return
