"""Matching of candidates to objects in hand-made cases, with padding by empty boxes."""

from __future__ import annotations

import numpy as np
from keras import ops

from accelbench.workloads.vision.matching import match, rows

TRUTH = np.array([[[0, 0, 10, 10], [20, 0, 30, 10], [0, 0, 0, 0]]], np.float32)
CANDIDATES = np.array(
    [
        [0, 0, 10, 10],  # the first object
        [0, 0, 10, 20],  # half of it is the first object
        [20, 0, 30, 9],  # nine tenths of the second
        [22, 0, 32, 10],  # IoU of 8/12 with the second
        [50, 50, 60, 60],  # nothing
        [0, 0, 25, 25],  # 100 of 625 pixels belong to the first object
    ],
    np.float32,
)


def test_candidates_are_positive_negative_or_neither_by_overlap() -> None:
    found = match(CANDIDATES, TRUTH, positive=0.6, negative=0.4)
    assert ops.convert_to_numpy(found.truth)[0, :4].tolist() == [0, 0, 1, 1]
    assert ops.convert_to_numpy(found.positive)[0].tolist() == [True, False, True, True, False, False]
    assert ops.convert_to_numpy(found.negative)[0].tolist() == [False, False, False, False, True, True]


def test_rescue_makes_the_best_candidate_of_each_object_positive() -> None:
    far = CANDIDATES[[1, 4, 5]]
    truth = np.array([[[0, 0, 10, 10], [55, 55, 70, 70], [0, 0, 0, 0]]], np.float32)
    assert not ops.convert_to_numpy(match(far, truth, positive=0.6, negative=0.4).positive).any()
    found = match(far, truth, positive=0.6, negative=0.4, rescue=True)
    assert ops.convert_to_numpy(found.positive)[0].tolist() == [True, True, False]
    assert ops.convert_to_numpy(found.truth)[0, :2].tolist() == [0, 1]
    assert ops.convert_to_numpy(found.negative)[0].tolist() == [False, False, True]


def test_a_rescued_candidate_is_assigned_to_the_object_that_it_rescues() -> None:
    """It overlaps more with the first object, which has a better candidate; the second has no other candidate."""
    candidates = np.array([[[0, 0, 10, 10], [0, 0, 10, 14]]], np.float32)
    truth = np.array([[[0, 0, 10, 10], [0, 10, 10, 20]]], np.float32)
    found = match(candidates, truth, positive=0.9, negative=0.4, rescue=True)
    assert ops.convert_to_numpy(found.truth)[0].tolist() == [0, 1]
    assert ops.convert_to_numpy(found.positive)[0].tolist() == [True, True]


def test_an_image_without_objects_has_negatives_only() -> None:
    found = match(CANDIDATES, np.zeros((2, 3, 4), np.float32), positive=0.5, negative=0.4, rescue=True)
    assert ops.convert_to_numpy(found.negative).all()
    assert not ops.convert_to_numpy(found.positive).any()


def test_rows_are_selected_per_image() -> None:
    values = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    index = np.array([[2, 0], [1, 1]])
    expected = np.stack([values[0][[2, 0]], values[1][[1, 1]]])
    assert ops.convert_to_numpy(rows(values, index)).tolist() == expected.tolist()
    assert ops.convert_to_numpy(rows(values[..., 0], index)).tolist() == expected[..., 0].tolist()
