"""Images with boxes, classes and masks of the objects in them, and how they reach a detector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NO_OBJECT = -1
"""The class of a row that only fills up the fixed number of objects."""


@dataclass(frozen=True)
class Scene:
    """One image and the n objects in it."""

    image: NDArray[np.uint8]
    """The colours, (S, S, 3)."""
    boxes: NDArray[np.float32]
    """The corners (n, 4): left, top, right, bottom in pixels; right and bottom are the first beyond the box."""
    classes: NDArray[np.int32]
    """The classes, (n,)."""
    masks: NDArray[np.uint8]
    """The masks (n, S, S), 1 where the object is seen; (0, S, S) in data without masks."""


class Scenes(Protocol):
    """Scenes that are drawn or read one by one; several threads may ask at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Scene: ...


@dataclass(frozen=True)
class SceneData:
    """Scenes to train on and scenes held out."""

    source: str
    synthetic: bool
    classes: tuple[str, ...]
    most: int
    """The most objects in one image."""
    train: Scenes
    held_out: Scenes


@dataclass(frozen=True)
class DetectionExamples:
    """Scenes as a detector is trained on them: (image, objects), the objects filled up to `most`."""

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
    """Examples with masks; the boxes go into the network as well, which trains on regions around them."""

    def __getitem__(self, index: int) -> Any:
        scene = self.scenes[index]
        image, objects = super().__getitem__(index)
        return (image, objects["boxes"]), {**objects, "masks": padded(scene.masks, self.most)}


def padded(values: NDArray[Any], count: int, fill: int = 0) -> NDArray[Any]:
    """Return the rows of an array, followed by rows of `fill` up to `count`."""
    rest = np.full((count - len(values), *values.shape[1:]), fill, values.dtype)
    return np.concatenate([values, rest])


def image_batches(scenes: Scenes, batch: int) -> Iterator[tuple[list[Scene], NDArray[np.uint8]]]:
    """Yield the scenes and their images, in batches of one size; the last batch is filled up with its first image."""
    for start in range(0, len(scenes), batch):
        some = [scenes[i] for i in range(start, min(start + batch, len(scenes)))]
        yield some, np.stack([scene.image for scene in (some + some[:1] * batch)[:batch]])
