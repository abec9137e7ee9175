"""RoIAlign agrees with a plain loop over sample points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from accelbench.workloads.vision.mask_rcnn import mask_targets
from accelbench.workloads.vision.roi_align import RoIAlign, level_of

Array = NDArray[np.float32]


def value_at(level: Array, y: float, x: float) -> Array:
    """Interpolate a map (H, W, C) between pixel centres; the first centre is at 0.5."""
    height, width = level.shape[:2]
    y, x = min(max(y - 0.5, 0), height - 1), min(max(x - 0.5, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = y - top, x - left
    above = (1 - across) * level[top, left] + across * level[top, right]
    below = (1 - across) * level[bottom, left] + across * level[bottom, right]
    return np.asarray((1 - down) * above + down * below)


def align(levels: list[Array], boxes: Array, size: int, image: int) -> Array:
    """Compute RoIAlign of one image by loops over regions, bins and levels."""
    out = np.zeros((len(boxes), size, size, levels[0].shape[-1]), np.float32)
    for n, (left, top, right, bottom) in enumerate(boxes.tolist()):
        side = math.sqrt((right - left) * (bottom - top))
        k = math.floor(4 + math.log2(side / 224)) if side else 0
        level = levels[min(max(k, 2), len(levels) + 1) - 2]
        scale = level.shape[0] / image
        for i in range(size):
            for j in range(size):
                y, x = top + (i + 0.5) * (bottom - top) / size, left + (j + 0.5) * (right - left) / size
                out[n, i, j] = value_at(level, y * scale, x * scale)
    return out


@pytest.mark.parametrize("size", [3, 7])
def test_it_agrees_with_a_plain_loop(size: int) -> None:
    rng = np.random.default_rng(size)
    image = 512
    levels = [rng.normal(size=(2, image // s, image // s, 5)).astype(np.float32) for s in (4, 8, 16, 32)]
    corners = rng.uniform(0, image / 2, (2, 12, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, image / 2, (2, 12, 2))], axis=-1).astype(np.float32)
    boxes[0, 0] = [0, 0, image, image]
    boxes[1, 0] = 0
    found = ops.convert_to_numpy(RoIAlign(size, image)(boxes, levels))
    expected = np.stack([align([level[i] for level in levels], boxes[i], size, image) for i in range(2)])
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_larger_regions_are_sampled_from_coarser_levels() -> None:
    sides = np.array([0, 20, 111, 113, 223, 225, 447, 449, 5000], np.float32)
    boxes = np.stack([0 * sides, 0 * sides, sides, sides], axis=-1)[None]
    assert ops.convert_to_numpy(level_of(boxes, 4))[0].tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]


def test_a_linear_ramp_is_sampled_exactly() -> None:
    """Features that rise by 1 per pixel are sampled at the exact centres of the bins."""
    ramp = np.broadcast_to(np.arange(16, dtype=np.float32)[None, None, :, None], (1, 16, 16, 1))
    box = np.array([[[10.3, 8.0, 38.3, 40.0]]], np.float32)
    found = ops.convert_to_numpy(RoIAlign(4, 64)(box, [ramp]))[0, 0, 0, :, 0]
    centres = 10.3 + 28 * (np.arange(4) + 0.5) / 4
    np.testing.assert_allclose(found, centres / 4 - 0.5, atol=1e-4)


def test_mask_targets_show_each_regions_own_object() -> None:
    masks = np.zeros((1, 2, 32, 32), np.uint8)
    masks[0, 0, :, :16] = 1
    masks[0, 1, 8:, :] = 1
    regions = np.array([[[8, 0, 24, 16], [0, 0, 16, 16], [0, 0, 16, 16]]], np.float32)
    found = ops.convert_to_numpy(mask_targets(masks, regions, np.array([[0, 1, 0]]), 4))[0]
    assert found[0].tolist() == [[1, 1, 0, 0]] * 4
    assert found[1].tolist() == [[0] * 4] * 2 + [[1] * 4] * 2
    assert found[2].tolist() == [[1] * 4] * 4
