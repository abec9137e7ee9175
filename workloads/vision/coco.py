"""Metrics of detections: COCO's mean average precision by `pycocotools`, and the mean IoU of pixel classes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.workloads.vision.scenes import Scene

MASK_THRESHOLD = 0.5
"""Minimum probability of an object's pixel (He et al., "Mask R-CNN", section 3.1)."""


@dataclass(frozen=True)
class ImageDetections:
    """D objects detected on one image, in descending order of score."""

    boxes: NDArray[np.float32]
    """Corners, (D, 4)."""
    scores: NDArray[np.float32]
    """Scores (D,), 0 to 1."""
    classes: NDArray[np.int32]
    """Classes, (D,)."""
    masks: NDArray[np.uint8] | None = None
    """Masks (D, S, S) of zeros and ones."""

    @classmethod
    def above(
        cls, score: float, boxes: Any, scores: Any, classes: Any, masks: NDArray[np.uint8] | None = None
    ) -> ImageDetections:
        """Return the objects with a score above `score`."""
        kept = scores > score
        return cls(boxes[kept], scores[kept], classes[kept], None if masks is None else masks[kept])


def mean_average_precision(
    scenes: Sequence[Scene], found: Sequence[ImageDetections], classes: int, kind: Literal["bbox", "segm"]
) -> tuple[float, float]:
    """Return COCO's mAP over IoU thresholds 0.5, 0.55 … 0.95, and mAP at 0.5, for at most 100 objects per image."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth = [
        {"id": number, "image_id": i, "iscrowd": 0, **described}
        for number, (i, described) in enumerate(
            ((i, described) for i, scene in enumerate(scenes) for described in _describe(scene, kind)), start=1
        )
    ]
    results = [
        {"image_id": i, "score": float(score), **described}
        for i, one in enumerate(found)
        for score, described in zip(one.scores, _describe(one, kind), strict=True)
    ]
    if not results:
        return 0.0, 0.0
    with redirect_stdout(StringIO()):  # pycocotools prints its progress
        coco = COCO()
        coco.dataset = {
            "info": {},
            "images": [{"id": i, "height": len(s.image), "width": len(s.image)} for i, s in enumerate(scenes)],
            "annotations": truth,
            "categories": [{"id": number} for number in range(classes)],
        }
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0]), float(evaluation.stats[1])


def _describe(objects: Scene | ImageDetections, kind: str) -> list[dict[str, Any]]:
    """Return COCO's description of each object: class, and box [left, top, width, height] or mask."""
    from pycocotools import mask as run_lengths

    described = []
    for i, (box, kind_of_object) in enumerate(zip(objects.boxes.astype(float), objects.classes, strict=True)):
        left, top, right, bottom = box.tolist()
        one: dict[str, Any] = {"category_id": int(kind_of_object), "bbox": [left, top, right - left, bottom - top]}
        one["area"] = (right - left) * (bottom - top)
        if kind == "segm":
            assert objects.masks is not None
            one["segmentation"] = run_lengths.encode(np.asfortranarray(objects.masks[i]))
            one["area"] = float(objects.masks[i].sum())
        described.append(one)
    return described


def mean_iou(scenes: Sequence[Scene], found: Sequence[ImageDetections], classes: int) -> float:
    """Return the IoU of pixel classes over all images, averaged over the background and the classes that occur.

    In overlapping masks the highest score determines a pixel's class. This is PASCAL VOC's segmentation metric.
    """
    counts = np.zeros((classes + 1, classes + 1), np.int64)
    for scene, one in zip(scenes, found, strict=True):
        assert one.masks is not None
        worst_first = np.argsort(one.scores, kind="stable")
        true = _paint(scene.masks, scene.classes, scene.image.shape[:2])
        said = _paint(one.masks[worst_first], one.classes[worst_first], scene.image.shape[:2])
        counts += np.bincount(true.ravel() * (classes + 1) + said.ravel(), minlength=counts.size).reshape(counts.shape)
    both = np.diag(counts)
    either = counts.sum(axis=0) + counts.sum(axis=1) - both
    return float((both[either > 0] / either[either > 0]).mean())


def _paint(masks: NDArray[np.uint8], classes: NDArray[np.int32], shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return the class of every pixel, counted from 1, with 0 for the background; later masks cover earlier ones."""
    painted = np.zeros(shape, np.int64)
    for mask, kind in zip(masks, classes, strict=True):
        painted[mask.astype(bool)] = kind + 1
    return painted


def paste(masks: NDArray[np.float32], boxes: NDArray[np.float32], size: int) -> NDArray[np.uint8]:
    """Return masks (D, size, size), 0 or 1, from probabilities (D, m, m) scaled to their boxes (D, 4)."""
    down = _stretch(boxes[:, 1], boxes[:, 3], masks.shape[1], size)
    across = _stretch(boxes[:, 0], boxes[:, 2], masks.shape[2], size)
    return (down @ masks @ across.transpose(0, 2, 1) >= MASK_THRESHOLD).astype(np.uint8)


def _stretch(begin: NDArray[np.float32], end: NDArray[np.float32], cells: int, size: int) -> NDArray[np.float32]:
    """Return the weights (D, size, cells) of mask cells for pixels: linear interpolation, 0 outside the box."""
    centres = np.arange(size, dtype=np.float32) + 0.5
    place = (centres - begin[:, None]) / np.maximum(end - begin, 1e-6)[:, None]
    inside = (place >= 0) & (place <= 1)
    place = np.clip(place * cells - 0.5, 0, cells - 1)
    shares = np.maximum(0, 1 - np.abs(place[..., None] - np.arange(cells, dtype=np.float32)))
    return np.asarray(shares * inside[..., None], np.float32)
