"""Images for counting the cells of an embryo: the user's own, or synthetic ones of the same size and task.

The 61,280 images of mouse embryos of Lawrence et al., "Comparing TensorFlow Deep Learning Performance Using CPUs, GPUs,
Local PCs and Cloud" (2017), with the number of cells as class, were never published.
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
    """Greyscale images (N, size, size) of bytes, and labels (N,), which are indices into `classes`."""

    classes: tuple[str, ...]


def load_embryos(size: int = 64, *, train: int = 2_000, held_out: int = 500, seed: int = 1) -> Embryos:
    """Return the images in the data folder's `embryo/CLASS/IMAGE`, or `train` + `held_out` synthetic ones without it.

    Images of any size, shape and mode are converted to greyscale and size × size. One fifth of each class, selected by
    the hash of the file name, is held out. `DataError` for an unusable folder.
    """
    folder = _own_folder()
    if folder is None:
        return _synthetic(size, train, held_out, seed)
    by_class = images_by_class(folder)
    for name, files in by_class.items():
        if len(files) < 2:
            raise DataError(f"{folder / name} holds a single image: at least two are needed, one of them held out")
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
    except DataError:  # there is no home directory
        return None
    return folder if os.path.lexists(folder) else None


def hold_out(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Split files into training files and a held-out fifth (at least one), identically on every machine."""
    by_hash = sorted(files, key=lambda file: hashlib.sha256(file.name.encode(errors="surrogateescape")).digest())
    held_out = set(by_hash[: max(1, round(len(files) / 5))])
    return [file for file in files if file not in held_out], [file for file in files if file in held_out]


def _read_all(files: Sequence[Path], size: int) -> NDArray[np.uint8]:
    with ThreadPoolExecutor() as pool:  # Pillow releases the GIL to decode and resize
        return np.stack(list(pool.map(lambda file: _read(file, size), files)))


def _read(file: Path, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file) as image:
            grey = _stretched(image) if image.mode[0] in "IF" else image.convert("L")
            return np.asarray(grey.resize((size, size), Image.Resampling.BOX, reducing_gap=2.0), np.uint8)
    # Pillow raises different exceptions for broken files: SyntaxError for PNG, ValueError, its own for large images.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"cannot read the image {file}: {error}: remove or replace it") from error


def _stretched(image: Image.Image) -> Image.Image:
    """Scale a 16- or 32-bit image, as from microscopes, so that its minimum and maximum become 0 and 255."""
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
