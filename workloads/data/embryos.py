"""Counting the cells of an embryo: a user's own microscope images, or synthetic ones of the same shape and task.

The images of Lawrence et al., "Comparing TensorFlow Deep Learning Performance Using CPUs, GPUs, Local PCs and
Cloud" (2017), 61,280 of mouse embryos in classes by their number of cells, were never published.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import DataError
from accelbench.workloads.data.imagefiles import images_by_class, listed
from accelbench.workloads.data.sources import OWN_FOLDERS
from accelbench.workloads.data.split import Split

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, kw_only=True)
class Embryos(Split):
    """Grey images (N, size, size) of bytes, labels (N,) that count `classes`."""

    classes: tuple[str, ...]


def load_embryos(size: int = 64, *, train: int = 2_000, held_out: int = 500, seed: int = 1) -> Embryos:
    """Return the images in the data folder's `embryo/CLASS/IMAGE`, or `train` + `held_out` synthetic ones without it.

    Images of any size, shape and mode become grey and size × size. Of each class a fifth, chosen by the hash of the
    file's name, is held out. `DataError` for a folder that cannot be trained on.
    """
    folder = _own_folder()
    if folder is None:
        return _synthetic(size, train, held_out, seed)
    by_class = images_by_class(folder)
    for name, files in by_class.items():
        if len(files) < 2:
            raise DataError(f"{folder / name} holds a single image: it takes one to train on and one to hold out")
    sides = {name: hold_out(files) for name, files in by_class.items()}
    classes = tuple(by_class)
    files_train, y_train = listed({name: kept for name, (kept, _) in sides.items()}, classes)
    files_test, y_test = listed({name: held for name, (_, held) in sides.items()}, classes)
    return Embryos(
        source=f"{len(files_train) + len(files_test):,} images of the folder {folder.name}",
        x_train=_read_all(files_train, size),
        y_train=y_train,
        x_test=_read_all(files_test, size),
        y_test=y_test,
        classes=classes,
    )


def _own_folder() -> Path | None:
    try:
        folder = OWN_FOLDERS["embryo"].path
    except DataError:  # no home, and so no folder
        return None
    return folder if os.path.lexists(folder) else None


def hold_out(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files to train on and a fifth of them (at least one) to hold out, the same ones on every machine."""
    by_hash = sorted(files, key=lambda file: hashlib.sha256(file.name.encode(errors="surrogateescape")).digest())
    held_out = set(by_hash[: max(1, round(len(files) / 5))])
    return [file for file in files if file not in held_out], [file for file in files if file in held_out]


def _read_all(files: Sequence[Path], size: int) -> NDArray[np.uint8]:
    with ThreadPoolExecutor() as pool:  # Pillow decodes and resizes without holding the interpreter
        return np.stack(list(pool.map(lambda file: _read(file, size), files)))


def _read(file: Path, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            grey = _stretched(image) if image.mode[0] in "IF" else image.convert("L")
            return np.asarray(grey.resize((size, size), Image.Resampling.BOX, reducing_gap=2.0), np.uint8)
    # Pillow reports a broken file in many words: SyntaxError for a PNG, ValueError, its own for one too large.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"cannot read the image {file}: {error}: remove or replace it") from error


def _stretched(image: Image.Image) -> Image.Image:
    """Return an image of 16 or 32 bits, as microscopes write them, its darkest and brightest value as 0 and 255."""
    from PIL import Image

    values = np.asarray(image, np.float64)
    low, high = values.min(), values.max()
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8))


def _synthetic(size: int, train: int, held_out: int, seed: int) -> Embryos:
    from accelbench.workloads.data.cells import MOST_CELLS, draw_cells

    images, cells = draw_cells(train + held_out, size, seed)
    return Embryos(
        source=f"synthetic: {train + held_out:,} drawn embryos of 1 to {MOST_CELLS} cells, seed {seed}",
        synthetic=True,
        x_train=images[:train],
        y_train=cells[:train] - 1,
        x_test=images[train:],
        y_test=cells[train:] - 1,
        classes=tuple(str(count) for count in range(1, MOST_CELLS + 1)),
    )
