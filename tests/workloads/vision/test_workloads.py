"""Both detection workloads train, fail verification if they do not learn, and reject invalid values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelbench.profiling.benchmark import REGISTRY, Skip, Training
from accelbench.profiling.records.point import Point
from accelbench.workloads import detection, segmentation
from accelbench.workloads.training.quality import floor
from accelbench.workloads.vision import load, pyramid, shapes
from accelbench.workloads.vision.scenes import SceneData
from tests.requirements import ANY_BACKEND
from tests.workloads.vision import tiny

MODULES = pytest.mark.parametrize("module", [detection, segmentation], ids=["detection", "segmentation"])
TRAIN, HELD_OUT = 12, 4


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a few synthetic scenes, and a backbone of five convolutions instead of ResNet-50."""

    def few(size: int, seed: int, **_: Any) -> SceneData:
        return shapes.drawn_shapes(size, seed, TRAIN, HELD_OUT)

    monkeypatch.setattr(load, "load_scenes", few)
    monkeypatch.setattr(pyramid, "resnet50", tiny.backbone)


def point(module: Any, **params: int | str) -> Point:
    name = module.__name__.split(".")[-1]
    given: dict[str, int | str] = {"image": 64, "batch": 4, "epochs": 2, "channels": 8, "workers": 2, "prefetch": 2}
    given["jit_compile"] = "off"  # compilation would take longer than these short runs
    return Point(name, "cpu", given | params, ANY_BACKEND, seed=3)


def prepare(module: Any, **params: int | str) -> Training:
    wanted = point(module, **params)
    training = REGISTRY[wanted.benchmark].prepare(wanted)
    assert isinstance(training, Training)
    return training


@pytest.mark.slow
@MODULES
def test_training_lowers_the_loss_and_all_metrics_are_reported(module: Any) -> None:
    training = prepare(module, epochs=6)
    history = training.fit([])
    assert history["loss"][-1] < history["loss"][0]
    parts = [name for name in history if name.endswith("_loss")]
    assert len(parts) == {detection: 2, segmentation: 5}[module]
    assert sum(history[name][-1] for name in parts) == pytest.approx(history["loss"][-1], rel=1e-3)
    qualities = training.evaluate()
    assert training.target is not None
    assert {quality.name for quality in training.qualities} == qualities.keys() - {"largest_overlap"}
    assert [quality.name for quality in training.qualities if quality.headline] == [training.target[0]]
    assert all(0 <= metric.value <= 1 for metric in qualities.values())
    assert (training.data.train, training.data.held_out, training.data.synthetic) == (TRAIN, HELD_OUT, True)
    assert (training.work.items, training.work.item) == (4, "images")
    outcome = training.verify(history, qualities)
    assert not outcome.passed, "the backbone has fewer parameters than ResNet-50"
    assert outcome.method.endswith(training.data.source)


@pytest.mark.slow
@MODULES
def test_a_quality_below_the_floor_fails(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = prepare(module).model.count_params()
    monkeypatch.setattr(module, "parameters", lambda classes, channels: parameters)
    training = prepare(module)
    qualities = training.evaluate()
    assert training.verify({"loss": [2.0, 1.0]}, qualities).passed
    monkeypatch.setattr(module, "FLOORS", ((0, 0.5),))
    outcome = prepare(module).verify({"loss": [2.0, 1.0]}, qualities)
    assert not outcome.passed
    assert str(outcome.expected).endswith("≥ 0.5")


@MODULES
@pytest.mark.parametrize("image", [32, 100, 1])
def test_an_image_size_that_cannot_be_halved_is_skipped(module: Any, image: int) -> None:
    with pytest.raises(Skip, match=rf"\b32\b.*\b64, not {image}$"):
        prepare(module, image=image)


@MODULES
def test_a_batch_larger_than_the_data_is_skipped_with_both_numbers(module: Any) -> None:
    with pytest.raises(Skip, match=r"\bbatch=13\b.*\b12\b"):
        prepare(module, batch=13)


@MODULES
def test_the_quality_floor_rises_with_the_number_of_images(module: Any) -> None:
    floors = [floor(module.FLOORS, images) for images in (0, 1_000, 10_000, 100_000)]
    assert floors == sorted(floors)
    assert floors[0] == 0
    assert floors[-1] >= 0.5


BIASES, FROZEN = 26_560, 53_120
"""Parameters of Keras's ResNet-50: biases that others omit, and scales and offsets that others freeze."""


def test_parameters_agree_with_torchvision() -> None:
    """`retinanet_resnet50_fpn` has 34,014,999 parameters and `maskrcnn_resnet50_fpn` 44,401,393, with 91 classes."""
    from_level5_not_stage5 = 9 * (2048 - 256) * 256
    assert detection.parameters(91, 256) - from_level5_not_stage5 - BIASES - FROZEN == 34_014_999
    box_and_mask_of_the_ground = 4 * 1025 + 257
    assert segmentation.parameters(90, 256) + box_and_mask_of_the_ground - BIASES - FROZEN == 44_401_393


@pytest.mark.slow
def test_the_backbone_has_the_parameters_of_resnet50(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    monkeypatch.undo()
    image = keras.Input((64, 64, 3), dtype="uint8")
    features = pyramid.resnet50(image)
    assert [tuple(f.shape[1:]) for f in features] == [(16, 16, 256), (8, 8, 512), (4, 4, 1024), (2, 2, 2048)]
    assert keras.Model(image, features).count_params() == detection.BACKBONE


def test_normalisation_is_per_image() -> None:
    """An image's features do not depend on its batch, in training or inference."""
    import keras

    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(32, 3, name="conv")(inputs)
    network = pyramid.normalised(keras.Model(inputs, keras.layers.BatchNormalization(name="one_bn")(x)))
    batch = np.random.default_rng(1).normal(size=(4, 8, 8, 3)).astype(np.float32)
    together = keras.ops.convert_to_numpy(network(batch, training=True))
    alone = keras.ops.convert_to_numpy(network(batch[:1]))
    np.testing.assert_allclose(together[:1], alone, atol=1e-5)
