"""Both detectors learn, agree on all backends, compilers and precisions, and return valid detections."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from accelbench.profiling.measure.flop_counts.layers import model_flops
from accelbench.profiling.records.point import Point
from accelbench.workloads.training.keras_model import use_backend
from accelbench.workloads.vision.mask_rcnn import MaskHead
from accelbench.workloads.vision.training import find, largest_overlap
from tests.fixtures import warm
from tests.requirements import BACKENDS
from tests.workloads.vision import tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FURTHER = ["retinanet", pytest.param("mask_rcnn", marks=pytest.mark.exhaustive)]
"""Models; the second contains the first one's parts plus masks, and takes twice as long."""
TOLERANCE = 1e-4
"""Relative: float32 sums of some thousand terms, in a different order on each backend."""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with initial weights of both models."""
    folder = tmp_path_factory.mktemp("weights")
    for name in tiny.MODELS:
        use_backend(Point(name, "cpu", {}, "tensorflow", seed=5))  # resets the random state of this process
        np.savez(folder / f"{name}.npz", *tiny.build(name)[0].get_weights())
    return folder


@pytest.fixture(scope="module", params=FURTHER)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def losses(weights: Path, name: str) -> dict[str, list[float]]:
    """Return the losses of the same four steps of a model, by backend, from one process each."""
    losses: dict[str, list[float]] = warm.run_on_all("tests.workloads.vision.tiny", name, str(weights))
    return losses


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_the_same_steps_give_the_same_losses_on_every_backend(losses: dict[str, list[float]], backend: str) -> None:
    reference = losses["tensorflow"]
    assert losses[backend] == pytest.approx(reference, rel=TOLERANCE)
    assert reference[-1] < 0.98 * reference[0]


@pytest.mark.exhaustive
def test_xla_on_a_cpu_gives_the_same_losses(losses: dict[str, list[float]], weights: Path, name: str) -> None:
    found = tiny.losses(name, tiny.weights_of(weights / f"{name}.npz"), steps=2, jit_compile=True)
    assert found == pytest.approx(losses["tensorflow"][:2], rel=TOLERANCE)


# The same casts in both; float16 also has a smaller range.
@pytest.mark.parametrize("precision", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.exhaustive)])
def test_half_precision_losses_are_float32_and_close(
    losses: dict[str, list[float]], weights: Path, name: str, precision: str
) -> None:
    keras.config.set_dtype_policy(precision)
    try:
        found = tiny.losses(name, tiny.weights_of(weights / f"{name}.npz"), steps=1, jit_compile=False)
        outputs = tiny.build(name)[0].outputs
    finally:
        keras.config.set_dtype_policy("float32")
    # Rounding reorders Mask R-CNN's proposals, and so changes its sampled regions.
    assert found == pytest.approx(losses["tensorflow"][:1], rel=0.05 if name == "retinanet" else 0.2)
    assert {output.dtype for output in outputs} == {"float32"}


def test_detections_are_within_the_image_ranked_and_unique(name: str) -> None:
    from accelbench.workloads.vision.shapes import drawn_shapes

    keras.utils.set_random_seed(2)
    _, detector = tiny.build(name)
    # Weights as large as in a trained network, without the prior: detections everywhere.
    for weight in detector.trainable_weights:
        weight.assign(np.random.default_rng(1).normal(0, 0.15, weight.shape))
    held_out = drawn_shapes(tiny.SIZE, 1, held_out=3).held_out
    _, found = find(detector, held_out, batch=2)
    assert len(found) == 3
    assert max(len(one.scores) for one in found) > 1
    assert largest_overlap(found) <= 0.501
    for one in found:
        assert (one.boxes >= 0).all()
        assert (one.boxes <= tiny.SIZE).all()
        assert (np.diff(one.scores) <= 0).all()
        assert set(one.classes.tolist()) <= {0, 1, 2}
        if name == "mask_rcnn":
            assert one.masks is not None
            assert one.masks.shape == (len(one.scores), tiny.SIZE, tiny.SIZE)
            for box, mask in zip(one.boxes, one.masks, strict=True):
                rows, columns = np.nonzero(mask)
                assert not len(rows) or (columns.min() + 1 > box[0] and rows.max() < box[3])


def test_work_of_both_models_agrees_with_a_hand_count() -> None:
    """64×64 pixels: levels with 16, 8, 4, 2 and 1 positions per side; 8 channels, 3 classes."""
    c, k = tiny.CHANNELS, tiny.CLASSES
    trunk = [32**2 * 27 * 8, 16**2 * 72 * 16, 8**2 * 144 * 16, 4**2 * 144 * 24, 2**2 * 216 * 32]
    lateral = {8: 16 * c, 4: 24 * c, 2: 32 * c}
    pyramid = sum(n * n * (inputs + 9 * c * c) for n, inputs in lateral.items())
    coarser = 1 * 9 * 32 * c + 1 * 9 * c * c  # one position each: strides of 64 and 128 pixels
    positions = 8**2 + 4**2 + 2**2 + 1 + 1
    heads = positions * (2 * 4 * 9 * c * c + 9 * c * 9 * (k + 4))
    detector, _ = tiny.build("retinanet")
    assert model_flops(detector, 2).forward == 2 * 2 * (sum(trunk) + pyramid + coarser + heads)

    pyramid += 16**2 * (16 * c + 9 * c * c)
    proposals = (16**2 + 8**2 + 4**2 + 2**2 + 1) * (9 * c * c + 15 * c)
    boxes = 32 * (49 * c * 1024 + 1024 * 1024 + 1024 * (1 + 5 * k))
    masks = 8 * (4 * 14**2 * 9 * c * c + 28**2 * (c * c + c * k))
    segmenter, _ = tiny.build("mask_rcnn")
    assert model_flops(segmenter, 2).forward == 2 * 2 * (sum(trunk) + pyramid + proposals + boxes + masks)
    (head,) = (layer for layer in segmenter.layers if isinstance(layer, MaskHead))
    assert head.products() == masks
