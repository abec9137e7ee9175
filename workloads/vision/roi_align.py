"""RoIAlign: features of regions of any size, sampled without rounding to pixels.

K. He, G. Gkioxari, P. Dollár and R. Girshick, "Mask R-CNN", ICCV 2017, section 3; a region's pyramid level is from
equation 1 of T.-Y. Lin et al., "Feature Pyramid Networks for Object Detection", CVPR 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

CANONICAL_SIDE, CANONICAL_LEVEL = 224, 4
"""A region of 224×224 pixels is sampled from the level of stride 2⁴."""


def sample_points(boxes: Any, size: int) -> tuple[Any, Any]:
    """Return the centres of the size × size bins of boxes (B, N, 4): y and x in pixels, each (B, N, size)."""
    middles = (ops.arange(size, dtype="float32") + 0.5) / size
    left, top, right, bottom = (boxes[..., i : i + 1] for i in range(4))
    return top + (bottom - top) * middles, left + (right - left) * middles


def bilinear(maps: Any, start: Any, side: Any, y: Any, x: Any) -> Any:
    """Interpolate square maps at heights y (B, N, H) and widths x (B, N, W); return values (B, N, H, W, C).

    `maps` (B, L, C) are all maps of an image in row-major order, concatenated; a box's map begins at row `start` and
    has sides of `side` pixels, both (B, N) integers. y and x are in pixels of that map, with the first pixel's
    centre at 0.5; outside of the outermost pixel centres the border values are repeated.
    """
    batch, length, channels = ops.shape(maps)[0], maps.shape[1], maps.shape[2]
    flat = ops.reshape(maps, (-1, channels))
    first = ops.reshape(ops.arange(batch, dtype="int32") * length, (-1, 1, 1, 1)) + start[..., None, None]
    top, bottom, down = _neighbours(y, side[..., None])
    left, right, across = _neighbours(x, side[..., None])
    width = side[..., None, None]

    def corner(row: Any, column: Any, row_share: Any, column_share: Any) -> Any:
        values = ops.take(flat, first + row[..., :, None] * width + column[..., None, :], axis=0)
        share = row_share[..., :, None, None] * column_share[..., None, :, None]
        return values * ops.cast(share, maps.dtype)

    return (
        corner(top, left, 1 - down, 1 - across)
        + corner(top, right, 1 - down, across)
        + corner(bottom, left, down, 1 - across)
        + corner(bottom, right, down, across)
    )


def _neighbours(place: Any, side: Any) -> tuple[Any, Any, Any]:
    """Return the pixels before and after each position, and the weight of the latter, 0 to 1."""
    place = ops.clip(place - 0.5, 0.0, ops.cast(side - 1, "float32"))
    before = ops.floor(place)
    first = ops.cast(before, "int32")
    return first, ops.minimum(first + 1, side - 1), place - before


class RoIAlign(keras.layers.Layer):  # type: ignore[misc]
    """Features (B, N, size, size, C) of boxes (B, N, 4), each sampled from the pyramid level that matches its size.

    Called with the boxes and the list of levels (B, H, W, C), square, fine to coarse, of strides 2^2, 2^3 and so on.
    One point per bin is sampled, at its centre: "nearly as effective" as the four points of the paper's experiments
    (its section 3), with a quarter of the memory. The layer has no weights and no matrix products.
    """

    def __init__(self, size: int, image: int, **options: Any) -> None:
        super().__init__(autocast=False, **options)  # coordinates stay float32, features keep their dtype
        self.size, self.image = size, image

    def call(self, boxes: Any, levels: Sequence[Any]) -> Any:
        sides = [int(level.shape[1]) for level in levels]
        starts = [sum(side * side for side in sides[:i]) for i in range(len(sides))]
        channels = levels[0].shape[-1]
        maps = ops.concatenate(
            [ops.reshape(f, (-1, n * n, channels)) for f, n in zip(levels, sides, strict=True)], axis=1
        )
        level = level_of(boxes, len(levels))
        side = ops.take(ops.convert_to_tensor(sides, "int32"), level)
        start = ops.take(ops.convert_to_tensor(starts, "int32"), level)
        scale = ops.cast(side, "float32")[..., None] / self.image
        y, x = sample_points(ops.stop_gradient(boxes), self.size)
        return bilinear(maps, start, side, y * scale, x * scale)

    def products(self) -> int:
        return 0


def level_of(boxes: Any, levels: int) -> Any:
    """Return the pyramid level (B, N), 0 for stride 4, from which boxes (B, N, 4) are sampled."""
    side = ops.sqrt(ops.maximum((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]), 1.0))
    level = CANONICAL_LEVEL - 2 + ops.floor(ops.log(side / CANONICAL_SIDE) / math.log(2) + 1e-6)
    return ops.cast(ops.clip(level, 0.0, float(levels - 1)), "int32")
