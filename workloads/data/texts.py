"""Text as bytes: the source of the running Python's library, or the user's own text.

Nothing has to be fetched: each Python includes some ten megabytes of source with documentation. Whole files are held
out, so that memorised files do not count.
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

from accelbench.workloads.data.cache import DataError, cache_directory

FOLDER = "text"
"""Folder in the data folder that replaces Python's library."""
HELD_OUT = 10
"""One file in `HELD_OUT` is held out."""
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

    `DataError` for a folder without text, with a binary file, or with too few files to hold one out.
    """
    own = path or _default_folder()
    if own is not None and os.path.lexists(own):
        files = sorted(file for file in own.rglob("*") if file.is_file() and not file.name.startswith("."))
        name = f"the folder {own.name}"
    else:
        own = Path(sysconfig.get_paths()["stdlib"])
        files = sorted(_written(own))
        name = f"the library of Python {'.'.join(map(str, sys.version_info[:3]))}"
    return split(name, _read(own, files))


def split(name: str, texts: Iterable[tuple[str, bytes]]) -> Text:
    """Split named texts into training bytes and held-out bytes, by whole files.

    The choice depends only on a file's name, so adding a file does not move others. `DataError` if a part is empty.
    """
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for file, text in texts:
        parts[is_held_out(file)].append(text)
    train, held_out = (np.frombuffer(b"".join(part), np.uint8) for part in parts)
    if not len(train) or not len(held_out):
        files = sum(map(len, parts))
        raise DataError(f"{name} has {files} files of text: too few to train on some and hold out others")
    size = (len(train) + len(held_out)) / 1e6
    source = f"{size:.1f} MB of {name}, {len(parts[1])} of {sum(map(len, parts))} files held out"
    return Text(source, train, held_out)


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


def _written(library: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(set(folders) - NOT_WRITTEN)
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _read(folder: Path, files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each non-empty file, up to `MOST` bytes in total."""
    taken = 0
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        if b"\0" in text:
            raise DataError(f"{file} is not a text file: it contains a zero byte")
        if text:
            taken += len(text)
            yield file.relative_to(folder).as_posix(), text
        if taken >= MOST:
            return
