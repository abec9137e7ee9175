"""Boxes [left, top, right, bottom] in pixels: overlap, and the regression targets of a network."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

LARGEST_GROWTH = math.log(1000 / 16)
"""Maximum logarithm of a side's growth, which keeps boxes of an untrained network finite (Detectron)."""
SMALLEST_SIDE = 1e-3
"""Minimum side in pixels, which keeps the code of an empty padding box finite."""


def area(boxes: Any) -> Any:
    """Return the area of boxes (…, 4) in square pixels."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def iou(first: Any, second: Any) -> Any:
    """Return the intersection over union (…, N, M) of boxes (…, N, 4) with boxes (…, M, 4); 0 for empty boxes."""
    first, second = ops.expand_dims(first, -2), ops.expand_dims(second, -3)
    corner = ops.minimum(first[..., 2:], second[..., 2:]) - ops.maximum(first[..., :2], second[..., :2])
    corner = ops.maximum(corner, 0.0)
    intersection = corner[..., 0] * corner[..., 1]
    union = area(first) + area(second) - intersection
    return intersection / ops.maximum(union, SMALLEST_SIDE**2)


def encode(boxes: Any, references: Any, scale: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)) -> Any:
    """Encode boxes relative to references: the centre's offset in reference sides, and the logarithm of the growth.

    Each of the four numbers is multiplied by its `scale`. R. Girshick et al., "Rich Feature Hierarchies", 2014,
    appendix C.
    """
    centre, side = _centre_and_side(boxes)
    from_centre, from_side = _centre_and_side(references)
    return ops.concatenate(
        [(centre - from_centre) / from_side, ops.log(side / from_side)], axis=-1
    ) * ops.convert_to_tensor(scale, "float32")


def decode(code: Any, references: Any, scale: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)) -> Any:
    """Invert `encode`; growth is limited to 62.5 times the reference's side."""
    code = code / ops.convert_to_tensor(scale, "float32")
    from_centre, from_side = _centre_and_side(references)
    centre = from_centre + code[..., :2] * from_side
    half = 0.5 * from_side * ops.exp(ops.minimum(code[..., 2:], LARGEST_GROWTH))
    return ops.concatenate([centre - half, centre + half], axis=-1)


def clip(boxes: Any, image: int) -> Any:
    """Clip boxes to a square image of that side."""
    return ops.clip(boxes, 0.0, float(image))


def _centre_and_side(boxes: Any) -> tuple[Any, Any]:
    centre = 0.5 * (boxes[..., :2] + boxes[..., 2:])
    return centre, ops.maximum(boxes[..., 2:] - boxes[..., :2], SMALLEST_SIDE)
