"""Overlaps, box codes and anchor positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from numpy.typing import NDArray

from accelbench.workloads.vision.anchors import anchors
from accelbench.workloads.vision.boxes import clip, decode, encode, iou

Boxes = NDArray[np.float32]


@st.composite
def boxes(draw: st.DrawFn, most: int = 8) -> Boxes:
    """Generate up to `most` boxes with sides of 1 to 100 pixels in an image of 200."""
    count = draw(st.integers(1, most))
    numbers = st.floats(0, 100, width=32)
    corners = [[draw(numbers), draw(numbers)] for _ in range(count)]
    sides = [[draw(st.floats(1, 100, width=32)), draw(st.floats(1, 100, width=32))] for _ in range(count)]
    return np.concatenate([corners, np.add(corners, sides)], axis=1).astype(np.float32)


def overlaps(first: Boxes, second: Boxes) -> Boxes:
    return np.asarray(ops.convert_to_numpy(iou(first, second)))


@settings(max_examples=50, deadline=None)
@given(first=boxes(), second=boxes())
def test_overlap_is_symmetric_within_0_and_1_and_1_with_itself(first: Boxes, second: Boxes) -> None:
    found = overlaps(first, second)
    assert found.shape == (len(first), len(second))
    assert (found >= 0).all()
    assert (found <= 1 + 1e-5).all()
    np.testing.assert_allclose(found, overlaps(second, first).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.diag(overlaps(first, first)), 1, rtol=1e-4)


@settings(max_examples=50, deadline=None)
@given(first=boxes(), second=boxes(), shift=st.integers(-50, 50), zoom=st.sampled_from([0.5, 2.0, 4.0]))
def test_overlap_is_invariant_under_shift_and_zoom(first: Boxes, second: Boxes, shift: int, zoom: float) -> None:
    moved = [((b + np.float32(shift)) * np.float32(zoom)).astype(np.float32) for b in (first, second)]
    np.testing.assert_allclose(overlaps(*moved), overlaps(first, second), atol=1e-3)


def test_overlap_of_known_boxes() -> None:
    first = np.array([[0, 0, 10, 10], [0, 0, 0, 0]], np.float32)
    second = np.array([[5, 0, 15, 10], [10, 10, 20, 20], [0, 0, 0, 0]], np.float32)
    np.testing.assert_allclose(overlaps(first, second), [[1 / 3, 0, 0], [0, 0, 0]], rtol=1e-6)


@settings(max_examples=50, deadline=None)
@given(first=boxes(most=1), second=boxes(most=1), scale=st.sampled_from([(1.0,) * 4, (10.0, 10.0, 5.0, 5.0)]))
def test_decoding_undoes_encoding(first: Boxes, second: Boxes, scale: tuple[float, ...]) -> None:
    again = ops.convert_to_numpy(decode(encode(first, second, scale), second, scale))
    if ((first[:, 2:] - first[:, :2]) / (second[:, 2:] - second[:, :2]) < 62).all():
        np.testing.assert_allclose(again, first, atol=2e-2)


def test_a_code_is_relative_to_the_sides_of_the_anchor() -> None:
    anchor, box = np.array([[0, 0, 10, 20]], np.float32), np.array([[5, 10, 25, 50]], np.float32)
    code = ops.convert_to_numpy(encode(box, anchor))
    np.testing.assert_allclose(code, [[1, 1, np.log(2), np.log(2)]], rtol=1e-6)


def test_codes_of_empty_boxes_and_extreme_codes_stay_finite() -> None:
    empty, anchor = np.zeros((1, 4), np.float32), np.array([[0, 0, 32, 32]], np.float32)
    assert np.isfinite(ops.convert_to_numpy(encode(empty, anchor))).all()
    assert np.isfinite(ops.convert_to_numpy(encode(anchor, empty))).all()
    assert np.isfinite(ops.convert_to_numpy(decode(np.full((1, 4), 1e4, np.float32), anchor))).all()


def test_clipping_keeps_the_part_inside_the_image() -> None:
    assert ops.convert_to_numpy(clip(np.array([[-5.0, 3.0, 70.0, 64.0]], np.float32), 64)).tolist() == [[0, 3, 64, 64]]


@pytest.mark.parametrize("image", [64, 96, 160])
def test_anchors_are_centred_at_each_position_of_each_level(image: int) -> None:
    strides = (8, 16, 32, 64, 128)
    found = anchors(image, strides, 4, scales=(1.0, 1.5))
    per_level = [6 * (-(-image // stride)) ** 2 for stride in strides]
    assert found.shape == (sum(per_level), 4)
    first, second = found[:6], found[6:12]
    np.testing.assert_allclose((first[:, :2] + first[:, 2:]) / 2, 4, atol=1e-5)
    np.testing.assert_allclose((second[:, :2] + second[:, 2:]) / 2, [[12, 4]] * 6, atol=1e-5)
    width, height = (first[:, 2:] - first[:, :2]).T
    np.testing.assert_allclose(width * height, [32**2] * 3 + [48**2] * 3, rtol=1e-5)
    np.testing.assert_allclose(height / width, [0.5, 1, 2] * 2, rtol=1e-5)
