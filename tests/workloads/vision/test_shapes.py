"""Synthetic scenes are exact, reproducible, and of fixed shape for the network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.workloads.vision.load import load_scenes
from accelbench.workloads.vision.scenes import NO_OBJECT, DetectionExamples, MaskExamples, image_batches
from accelbench.workloads.vision.shapes import CORNERS, MOST, Shapes, drawn_shapes


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), index=st.integers(0, 500), size=st.sampled_from([64, 96]))
def test_boxes_are_the_bounds_of_disjoint_masks(seed: int, index: int, size: int) -> None:
    scene = Shapes(size, seed, 0, 501)[index]
    assert 1 <= len(scene.boxes) == len(scene.classes) == len(scene.masks) <= MOST
    assert scene.image.shape == (size, size, 3)
    assert scene.masks.sum(axis=0).max() == 1
    assert set(scene.classes.tolist()) <= set(range(len(CORNERS)))
    for mask, (left, top, right, bottom) in zip(scene.masks, scene.boxes.astype(int), strict=True):
        assert mask.sum() == mask[top:bottom, left:right].sum() > 0
        inside = mask[top:bottom, left:right]
        assert inside[0].any()
        assert inside[-1].any()
        assert inside[:, 0].any()
        assert inside[:, -1].any()


def test_scenes_depend_on_seed_and_index_alone() -> None:
    first, again, other = (drawn_shapes(64, seed).train for seed in (3, 3, 4))
    last = first[7]
    assert (again[2].image == first[2].image).all()
    assert (again[7].image == last.image).all()
    assert (again[7].boxes == last.boxes).all()
    assert (other[7].image != last.image).any()


def test_held_out_scenes_differ_from_training_scenes() -> None:
    data = drawn_shapes(64, 3, train=20, held_out=10)
    seen = {data.train[i].image.tobytes() for i in range(20)}
    assert not seen & {data.held_out[i].image.tobytes() for i in range(10)}
    assert (data.synthetic, data.classes) == (True, ("disc", "square", "triangle"))
    assert data.source.startswith("synthetic: 30 ")
    with pytest.raises(IndexError):
        data.held_out[10]


def test_all_shapes_of_a_radius_have_the_same_area() -> None:
    scenes = drawn_shapes(256, 1, train=40).train
    shares: dict[int, list[float]] = {}
    for scene in (scenes[i] for i in range(40)):
        for box, kind, mask in zip(scene.boxes, scene.classes, scene.masks, strict=True):
            shares.setdefault(int(kind), []).append(mask.sum() / np.prod(box[2:] - box[:2]))
    assert max(shares[0]) == pytest.approx(np.pi / 4, abs=0.02)
    assert max(shares[1]) <= 1
    assert max(shares[2]) < 0.65


def test_examples_have_one_shape_for_any_number_of_objects() -> None:
    data = load_scenes(64, 2, masks=True)
    examples = MaskExamples(data.train, data.most)
    counts = set()
    for i in range(12):
        (image, truth), objects = examples[i]
        count = len(data.train[i].boxes)
        counts.add(count)
        assert image.shape == (64, 64, 3)
        assert (truth.shape, truth.dtype) == ((MOST, 4), np.float32)
        assert (objects["classes"][:count] != NO_OBJECT).all()
        assert (objects["classes"][count:] == NO_OBJECT).all()
        assert (truth[count:] == 0).all()
        assert objects["masks"].shape == (MOST, 64, 64)
    assert len(counts) > 1
    assert DetectionExamples(data.train, data.most)[3][1]["boxes"].tolist() == examples[3][0][1].tolist()


def test_image_batches_have_one_size_and_contain_all_scenes_once() -> None:
    held_out = drawn_shapes(64, 2, held_out=5).held_out
    batches = list(image_batches(held_out, 3))
    assert [len(some) for some, _ in batches] == [3, 2]
    assert [images.shape for _, images in batches] == [(3, 64, 64, 3)] * 2
    assert (batches[1][1][2] == held_out[3].image).all()
