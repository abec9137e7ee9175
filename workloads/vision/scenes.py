"""Images with boxes, classes and masks of objects, and their batches for a detector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NO_OBJECT = -1
"""Class of padding rows."""


@dataclass(frozen=True)
class Scene:
    """One image with n objects."""

    image: NDArray[np.uint8]
    """Colours, (S, S, 3)."""
    boxes: NDArray[np.float32]
    """Corners (n, 4): left, top, right, bottom in pixels; right and bottom are exclusive."""
    classes: NDArray[np.int32]
    """Classes, (n,)."""
    masks: NDArray[np.uint8]
    """Masks (n, S, S), 1 where the object is visible; (0, S, S) in data without masks."""


class Scenes(Protocol):
    """Scenes generated or read one by one, possibly from several threads."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Scene: ...


@dataclass(frozen=True)
class SceneData:
    """Training and held-out scenes."""

    source: str
    synthetic: bool
    classes: tuple[str, ...]
    most: int
    """Maximum number of objects per image."""
    train: Scenes
    held_out: Scenes


@dataclass(frozen=True)
class DetectionExamples:
    """Training examples of a detector: (image, objects), with objects padded to `most`."""

    scenes: Scenes
    most: int

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: int) -> Any:
        scene = self.scenes[index]
        return scene.image, {
            "boxes": padded(scene.boxes, self.most),
            "classes": padded(scene.classes, self.most, NO_OBJECT),
        }


@dataclass(frozen=True)
class MaskExamples(DetectionExamples):
    """DetectionExamples with masks; boxes are also an input of the network, which trains on regions around them."""

    def __getitem__(self, index: int) -> Any:
        scene = self.scenes[index]
        image, objects = super().__getitem__(index)
        return (image, objects["boxes"]), {**objects, "masks": padded(scene.masks, self.most)}


def padded(values: NDArray[Any], count: int, fill: int = 0) -> NDArray[Any]:
    """Return the rows of an array, padded with rows of `fill` to `count`."""
    rest = np.full((count - len(values), *values.shape[1:]), fill, values.dtype)
    return np.concatenate([values, rest])


def image_batches(scenes: Scenes, batch: int) -> Iterator[tuple[list[Scene], NDArray[np.uint8]]]:
    """Yield scenes and their images in batches of equal size; the last batch is padded with its first image."""
    for start in range(0, len(scenes), batch):
        some = [scenes[i] for i in range(start, min(start + batch, len(scenes)))]
        yield some, np.stack([scene.image for scene in (some + some[:1] * batch)[:batch]])
