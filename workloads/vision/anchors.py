"""Anchors: reference boxes of a detector, identical for all images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RATIOS = (0.5, 1.0, 2.0)
"""Height divided by width (Ren et al., "Faster R-CNN", 2015)."""


def anchors(
    image: int, strides: Sequence[int], side: float, scales: Sequence[float] = (1.0,), ratios: Sequence[float] = RATIOS
) -> NDArray[np.float32]:
    """Return the anchors (A, 4) of all pyramid levels over a square image, fine to coarse, in row-major order.

    Each position of the level with stride s has one anchor of (side × s × scale)² pixels for every scale and ratio, in
    this order.
    """
    return np.concatenate([_level(image, stride, side * stride, scales, ratios) for stride in strides])


def positions(image: int, stride: int) -> int:
    """Return the number of positions along a side of the level with that stride; odd sizes are rounded up."""
    return math.ceil(image / stride)


def _level(
    image: int, stride: int, side: float, scales: Sequence[float], ratios: Sequence[float]
) -> NDArray[np.float32]:
    count = positions(image, stride)
    centres = (np.arange(count) + 0.5) * stride
    y, x = np.meshgrid(centres, centres, indexing="ij")
    shapes = np.array([(side * s / math.sqrt(r), side * s * math.sqrt(r)) for s in scales for r in ratios])
    half = shapes[None] / 2  # (1, shapes, width and height)
    centre = np.stack([x, y], axis=-1).reshape(-1, 1, 2)
    return np.concatenate([centre - half, centre + half], axis=-1).reshape(-1, 4).astype(np.float32)
