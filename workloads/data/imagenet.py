"""Decoding, cropping and flipping of single images for classification, called by the pipeline."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import DataError
from accelbench.workloads.data.imagefiles import RecordFiles, image_folder
from accelbench.workloads.data.split import evenly

IMAGENET_CLASSES = 1000
CROP_AREA, CROP_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
"""Area and aspect ratio of random training crops (C. Szegedy et al., "Going Deeper with Convolutions", 2015)."""
CENTRE = 224 / 256
"""Side of the central crop for testing, as a share of the shorter side."""


@dataclass
class Images:
    """RGB images (size, size, 3) of bytes with one-hot labels; cropped at random or centrally."""

    encoded: Sequence[Any]
    """Files, or (file, offset, length) in TFRecord files."""
    labels: NDArray[np.int64] | None
    """Label of each image; None if the record contains it."""
    classes: int
    size: int
    seed: int | None
    """Seed of the random crops; None for central crops."""
    asked: NDArray[np.int32] = field(init=False)
    """Number of reads of each image, part of its crop's seed: crops differ, and do not depend on the worker order."""

    def __post_init__(self) -> None:
        self.asked = np.zeros(len(self.encoded), np.int32)

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Return one image and its label; `DataError` names a file that cannot be read."""
        where = self.encoded[index]
        try:
            image, label = self._read(where)
            pixels = self._centre(image) if self.seed is None else self._crop(image, index)
        # Pillow raises different exceptions for broken files: SyntaxError for PNG, ValueError, and OSError.
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(f"cannot read the image {_place(where)}: {error}: remove or replace it") from error
        except KeyError as key:
            raise DataError(f"cannot read the image {_place(where)}: it has no value of {key}") from key
        found = label if self.labels is None else int(self.labels[index])
        return pixels, np.eye(1, self.classes, found, dtype=np.float32)[0]

    @cached_property
    def known_labels(self) -> NDArray[np.int64]:
        """Labels of all images, (N,); read once from the records that contain them."""
        if self.labels is not None:
            return self.labels
        return np.array([self._read(where)[1] for where in self.encoded], np.int64)

    def _read(self, where: Any) -> tuple[Any, int]:
        from PIL import Image

        if isinstance(where, Path):
            return Image.open(where), 0
        file, offset, length = where
        with file.open("rb") as records:
            records.seek(offset)
            example = parse_example(records.read(length))
        # In these files class 0 is the background.
        return Image.open(io.BytesIO(example["image/encoded"])), int(example["image/class/label"]) - 1

    def _crop(self, image: Any, index: int) -> NDArray[np.uint8]:
        from PIL import Image

        generator = np.random.default_rng([self.seed or 0, index, int(self.asked[index])])
        self.asked[index] += 1
        width, height = image.size
        area = width * height * generator.uniform(*CROP_AREA)
        ratio = np.exp(generator.uniform(*np.log(CROP_RATIO)))
        wide, high = min(width, round((area * ratio) ** 0.5)), min(height, round((area / ratio) ** 0.5))
        wide, high = max(1, wide), max(1, high)
        left, top = (int(generator.integers(0, rest, endpoint=True)) for rest in (width - wide, height - high))
        box = (left, top, left + wide, top + high)
        pixels = np.asarray(image.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR, box))
        return pixels[:, ::-1] if generator.random() < 0.5 else pixels

    def _centre(self, image: Any) -> NDArray[np.uint8]:
        from PIL import Image

        width, height = image.size
        side = min(width, height) * CENTRE
        box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
        return np.asarray(image.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR, box))


def _place(where: Any) -> str:
    """Return the place of an image as text."""
    if isinstance(where, Path):
        return str(where)
    file, offset, _ = where
    return f"in the record at byte {offset:,} of {file}"


@dataclass(frozen=True)
class ImageNet:
    """A user's training and held-out images."""

    source: str
    classes: int
    train: Images
    held_out: Images

    @cached_property
    def train_sample(self) -> Images:
        """As many evenly spaced training images as are held out, with central crops."""
        chosen = evenly(min(len(self.train), len(self.held_out)), len(self.train))
        labels = None if self.train.labels is None else self.train.labels[chosen]
        return replace(self.train, encoded=[self.train.encoded[index] for index in chosen], labels=labels, seed=None)


def load_imagenet(size: int, seed: int, path: Path | None = None) -> ImageNet | None:
    """Return the images in the data folder's `imagenet` (see `image_folder`), or None without that folder.

    `DataError` for an unusable folder or a corrupt record file.
    """
    found = image_folder(path)
    if found is None:
        return None
    if isinstance(found, RecordFiles):
        train, held_out = (
            [record for file in files for record in record_places(file)] for files in (found.train, found.held_out)
        )
        for part, places in (("train-*", train), ("validation-*", held_out)):
            if not places:
                raise DataError(f"the {part} records of {found.source} have no examples")
        return ImageNet(
            found.source,
            IMAGENET_CLASSES,
            Images(train, None, IMAGENET_CLASSES, size, seed),
            Images(held_out, None, IMAGENET_CLASSES, size, None),
        )
    classes = len(found.classes)
    return ImageNet(
        found.source,
        classes,
        Images(found.train, found.y_train, classes, size, seed),
        Images(found.held_out, found.y_test, classes, size, None),
    )


def record_places(file: Path) -> Iterator[tuple[Path, int, int]]:
    """Yield file, offset and length of each record: 8 bytes of length, 4 of checksum, the record, 4 of checksum.

    `DataError` for a truncated file.
    """
    size = file.stat().st_size
    with file.open("rb") as records:
        offset = 0
        while offset < size:
            records.seek(offset)
            length = int.from_bytes(records.read(8), "little")
            if offset + 16 + length > size:
                raise DataError(f"{file} ends within a record: the copy is incomplete")
            yield file, offset + 12, length
            offset += 16 + length


def parse_example(record: bytes) -> dict[str, Any]:
    """Return the single-valued features (bytes or integer) of a `tf.train.Example`, by name."""
    features = {}
    for _, entry in wire_fields(dict(wire_fields(record))[1]):  # Example.features.feature, a map
        pair = dict(wire_fields(entry))
        ((kind, values),) = wire_fields(pair[2])
        content = dict(wire_fields(values)).get(1)
        if kind == 1:  # BytesList
            features[pair[1].decode()] = content
        elif kind == 3 and content is not None:  # Int64List, packed or not
            features[pair[1].decode()] = content if isinstance(content, int) else _varint(content, 0)[0]
    return features


def wire_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and content of each field of a protocol buffer: bytes (wire type 2) or an integer (type 0)."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, place = _varint(message, place)
        if tag & 7 == 2:
            yield tag >> 3, message[place : place + number]
            place += number
        elif tag & 7 == 0:
            yield tag >> 3, number
        else:
            raise ValueError(f"unsupported wire type {tag & 7} in an image record")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Decode a varint (groups of seven bits, lowest first); return it and the position after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
