"""Text as bytes: the library and documentation of the Python that runs this, or whatever text the user has.

Nothing need be fetched: every Python has some ten megabytes of source with its documentation in it, written by people.
The held-out bytes are those of whole files, so that a model which learnt a file by heart gains nothing there.
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
"""The folder in the data folder whose files are taken in place of Python's own."""
HELD_OUT = 10
"""One file in so many is held out."""
NOT_WRITTEN = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test", "lib2to3", "encodings"}
"""The folders of Python's library that are installed by others, or are mostly tables and cases."""
MOST = 64 << 20
"""The bytes that are taken at most: sixty times what a short training reads."""
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Text:
    """Bytes to learn from, and those of other files."""

    source: str
    """A phrase that says exactly which text it is."""
    train: Bytes
    held_out: Bytes


def load_text(path: Path | None = None) -> Text:
    """Return the text of that folder, by default of `text` in the data folder, else that of Python's own library.

    `DataError` for a folder without text, with a file that is none, or with too little to hold a file out.
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
    """Return named texts as bytes to learn from and bytes held out, whole files each.

    A file's name alone decides, so that another file changes nothing for it. `DataError` where one part would be empty.
    """
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for file, text in texts:
        parts[is_held_out(file)].append(text)
    train, held_out = (np.frombuffer(b"".join(part), np.uint8) for part in parts)
    if not len(train) or not len(held_out):
        files = sum(map(len, parts))
        raise DataError(f"{name} has {files} files of text: too few to learn from some and hold others out")
    size = (len(train) + len(held_out)) / 1e6
    source = f"{size:.1f} MB of {name}, {len(parts[1])} of {sum(map(len, parts))} files held out"
    return Text(source, train, held_out)


def is_held_out(file: str) -> bool:
    """Tell whether a file of that name, within its folder, is held out."""
    return sha256(file.encode(errors="replace")).digest()[0] % HELD_OUT == 0


def bits_per_byte(train: Bytes, held_out: Bytes) -> float:
    """Return the held-out cross-entropy, in bits, of a model that knows only the byte before.

    It counts pairs, and falls back to single bytes for what it has not met (Witten and Bell, "The Zero-Frequency
    Problem", IEEE Transactions on Information Theory 37(4), 1991).
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
    """Yield name and content of each file until there is enough; what is empty is left out."""
    taken = 0
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        if b"\0" in text:
            raise DataError(f"{file} is no text: it has a zero byte")
        if text:
            taken += len(text)
            yield file.relative_to(folder).as_posix(), text
        if taken >= MOST:
            return
