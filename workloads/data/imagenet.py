"""Images for classification as a network takes them: decoded, cropped and turned over, one by one, by the pipeline."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.data.cache import DataError
from accelbench.workloads.data.imagefiles import RecordFiles, image_folder

IMAGENET_CLASSES = 1000
CROP_AREA, CROP_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
"""The area and shape of the random crops trained on (C. Szegedy et al., "Going Deeper with Convolutions", 2015)."""
CENTRE = 224 / 256
"""The part of the shorter side that is looked at for testing."""


@dataclass
class Images:
    """Examples of RGB images (size, size, 3) of bytes and one-hot labels; a random crop each time, or the centre."""

    encoded: Sequence[Any]
    """The files, or (file, offset, length) within a TFRecord file."""
    labels: NDArray[np.int64] | None
    """The label of each image; None where the record holds the label."""
    classes: int
    size: int
    seed: int | None
    """The seed of the crops; None for the centre of the image."""
    asked: NDArray[np.int32] = field(init=False)
    """The times each image was asked for, so that its crops differ and do not depend on the order of the workers."""

    def __post_init__(self) -> None:
        self.asked = np.zeros(len(self.encoded), np.int32)

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Return one image and its label; `DataError` names the file that cannot be read."""
        where = self.encoded[index]
        try:
            image, label = self._read(where)
            pixels = self._centre(image) if self.seed is None else self._crop(image, index)
        # Pillow reports a broken file in many words: SyntaxError for a PNG, ValueError, and OSError.
        except (OSError, SyntaxError, ValueError, KeyError) as error:
            raise DataError(f"cannot read the image {where}: {error}: remove or replace it") from error
        found = label if self.labels is None else int(self.labels[index])
        return pixels, np.eye(1, self.classes, found, dtype=np.float32)[0]

    def _read(self, where: Any) -> tuple[Any, int]:
        from PIL import Image

        if isinstance(where, Path):
            return Image.open(where), 0
        file, offset, length = where
        with file.open("rb") as records:
            records.seek(offset)
            example = parse_example(records.read(length))
        # Class 0 is the background in these files.
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


@dataclass(frozen=True)
class ImageNet:
    """A user's images: those to train on and those held out, whose labels are needed for the quality, too."""

    source: str
    classes: int
    train: Images
    held_out: Images

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels of the held-out images, (N,)."""
        if self.held_out.labels is not None:
            return self.held_out.labels
        return np.array([self.held_out[index][1].argmax() for index in range(len(self.held_out))])


def load_imagenet(size: int, seed: int, path: Path | None = None) -> ImageNet | None:
    """Return the images in the data folder's `imagenet` (see `image_folder`), or None if there is no such folder.

    `DataError` for a folder that cannot be trained on, or a damaged record file.
    """
    found = image_folder(path)
    if found is None:
        return None
    if isinstance(found, RecordFiles):
        train, held_out = (
            [record for file in files for record in record_places(file)] for files in (found.train, found.held_out)
        )
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
    """Yield file, offset and length of each record: a length of 8 bytes, its checksum of 4, the record, and 4 again.

    `DataError` for a file that ends within a record.
    """
    size = file.stat().st_size
    with file.open("rb") as records:
        offset = 0
        while offset < size:
            records.seek(offset)
            length = int.from_bytes(records.read(8), "little")
            if offset + 16 + length > size:
                raise DataError(f"{file} ends within a record: it was not copied completely")
            yield file, offset + 12, length
            offset += 16 + length


def parse_example(record: bytes) -> dict[str, Any]:
    """Return the features of a `tf.train.Example` that hold one value, bytes or a whole number, by name."""
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
    """Yield number and content of each field of a protocol buffer: bytes (wire type 2) or a whole number (0)."""
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
            raise ValueError(f"a field of wire type {tag & 7} is in no image record")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a whole number in groups of seven bits, the lowest first, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
