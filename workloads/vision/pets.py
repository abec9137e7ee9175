"""The Oxford-IIIT Pets: 37 breeds of cats and dogs, with outlines of the animals, and boxes of some heads.

O. M. Parkhi, A. Vedaldi, A. Zisserman and C. V. Jawahar, "Cats and Dogs", CVPR 2012. The folder has the layout of its
two archives: `images/NAME.jpg`, `annotations/list.txt` (name, breed, species, number in the species),
`annotations/trimaps/NAME.png` and `annotations/xmls/NAME.xml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from accelbench.workloads.data import DataError
from accelbench.workloads.vision.scenes import Scene, SceneData
from accelbench.workloads.vision.shapes import bounds

SPECIES = ("cat", "dog")
"""Species, numbered from 1 in `list.txt`."""
GROUND = 2
"""Trimap value of the background; 1 is the animal, and 3 its border, which counts as animal."""
HELD_OUT = 5
"""One image in `HELD_OUT` is held out; the list is sorted by breed, so each breed is represented."""


@dataclass(frozen=True)
class Pets:
    """Some of the pets, scaled to squares of `size` pixels: whole animals with masks, or boxed heads."""

    folder: Path
    size: int
    names: tuple[str, ...]
    species: tuple[int, ...]
    masks: bool

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Scene:
        """Return one pet; DataError names a missing or broken file."""
        name, kind = self.names[index], np.array([self.species[index]], np.int32)
        colours, (width, height) = _read_image(self.folder / "images" / f"{name}.jpg", self.size)
        if not self.masks:
            box = _read_head(self.folder / "annotations" / "xmls" / f"{name}.xml", width, height)
            return Scene(colours, box * self.size, kind, np.zeros((0, self.size, self.size), np.uint8))
        file = self.folder / "annotations" / "trimaps" / f"{name}.png"
        mask = _read_trimap(file, self.size) != GROUND
        if not mask.any():
            raise DataError(f"{file} contains no pixel of an animal")
        return Scene(colours, bounds(mask)[None], kind, mask[None].astype(np.uint8))


def load_pets(folder: Path, size: int, *, masks: bool) -> SceneData:
    """Return the listed pets, without `masks` only those with a boxed head; DataError for an unusable folder."""
    species = _read_list(folder / "annotations" / "list.txt")
    names = list(species)
    if not masks:
        boxed = {file.stem for file in (folder / "annotations" / "xmls").glob("*.xml")}
        names = [name for name in names if name in boxed]
    if len(names) < 2:
        raise DataError(
            f"{folder / 'annotations'} lists {len(names)} pets: at least two are needed, one of them held out"
        )

    def some(chosen: list[str]) -> Pets:
        return Pets(folder, size, tuple(chosen), tuple(species[name] for name in chosen), masks)

    return SceneData(
        source=f"{len(names):,} images of the Oxford-IIIT Pets, {'outlines' if masks else 'heads'}",
        synthetic=False,
        classes=SPECIES,
        most=1,
        train=some([name for i, name in enumerate(names) if i % HELD_OUT]),
        held_out=some(names[::HELD_OUT]),
    )


def _read_list(file: Path) -> dict[str, int]:
    """Return the species of every image, 0 or 1, by name; lines starting with # are comments."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            fields = line.split()
            if len(fields) != 4 or fields[2] not in ("1", "2"):
                raise DataError(f"{file}, line {number}: expected a name, a breed, the species 1 or 2 and a number")
            found[fields[0]] = int(fields[2]) - 1
    return found


def _read_image(file: Path, size: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Return the colours (size, size, 3), and the original width and height."""
    try:
        with Image.open(file) as image:
            stretched = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(stretched, np.uint8), image.size
    # Pillow raises different exceptions for broken files: SyntaxError for PNG, ValueError, its own for large images.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _unreadable(file, error) from error


def _read_trimap(file: Path, size: int) -> NDArray[np.uint8]:
    try:
        with Image.open(file) as image:
            trimap = np.asarray(image.resize((size, size), Image.Resampling.NEAREST))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _unreadable(file, error) from error
    if trimap.ndim != 2 or not np.isin(trimap, (1, 2, 3)).all():
        raise DataError(f"{file} is not a trimap: it has pixel values other than 1, 2 and 3")
    return trimap


def _read_head(file: Path, width: int, height: int) -> NDArray[np.float32]:
    """Return the head's box (1, 4) in shares of the image; the file's corners are 1-based and inclusive."""
    try:
        corners = [
            ElementTree.parse(file).findtext(f"object/bndbox/{name}") for name in ("xmin", "ymin", "xmax", "ymax")
        ]
        left, top, right, bottom = (float(corner or "") for corner in corners)
    except (OSError, ElementTree.ParseError, ValueError) as error:
        raise _unreadable(file, error) from error
    box = np.array([[(left - 1) / width, (top - 1) / height, right / width, bottom / height]], np.float32).clip(0, 1)
    if not (box[0, :2] < box[0, 2:]).all():
        raise DataError(f"{file}: the box {left:g} {top:g} {right:g} {bottom:g} is not in the {width}×{height} image")
    return box


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {file}: {error}: fetch the pets again, or remove the folder")
