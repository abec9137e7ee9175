"""The image workloads agree with the papers' networks, run on several devices, and reject invalid values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.machine import free_memory as memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.timing.steps import QualityCurve, StepClock
from accelbench.workloads import data, deep_mnist_embryo, resnet50
from accelbench.workloads.data import load_embryos
from accelbench.workloads.training.quality import floor
from tests.conftest import ROOT, Run, records
from tests.requirements import ANY_BACKEND

EMBRYO = {"image": 16, "batch": 10, "epochs": 1, "devices": 1, "jit_compile": "off"}
RESNET = {"image": 32, "batch": 4, "epochs": 1, "devices": 1, "workers": 2, "prefetch": 2, "jit_compile": "off"}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use few synthetic embryos, and an empty data folder."""
    monkeypatch.setenv("ACCELBENCH_DATA", str(tmp_path))
    monkeypatch.setattr(data, "load_embryos", lambda size, **drawn: load_embryos(size, train=60, held_out=100))


def embryo(**params: int) -> Training:
    task = deep_mnist_embryo.deep_mnist_embryo(Point("deep-mnist-embryo", "cpu", EMBRYO | params, ANY_BACKEND, seed=5))
    assert isinstance(task, Training)
    return task


def residual(backend: str = ANY_BACKEND, **params: int | str) -> Training:
    task = resnet50.resnet50(Point("resnet50", "cpu", RESNET | params, backend, seed=5))
    assert isinstance(task, Training)
    return task


def test_the_papers_network_has_16_8_million_parameters() -> None:
    assert deep_mnist_embryo.parameters(64, 5) == 16_835_461
    task = embryo()
    assert task.model.count_params() == deep_mnist_embryo.parameters(16, 5)
    assert task.data.synthetic
    assert task.data.source.startswith("synthetic: ")


def test_training_on_synthetic_embryos_passes_and_low_accuracy_fails() -> None:
    task = embryo()
    history = task.fit([])
    qualities = task.evaluate() | {"test_accuracy": Metric(0.5)}
    assert task.verify(history, qualities).passed
    assert not task.verify(history, qualities | {"test_accuracy": Metric(0.1)}).passed


def test_a_fifth_of_the_images_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def few_of(size: int, **drawn: int) -> data.Embryos:
        asked.append(drawn)
        return load_embryos(size, train=60, held_out=100)

    monkeypatch.setattr(data, "load_embryos", few_of)
    embryo(images=61_280)
    embryo()
    assert asked == [{"train": 49_024, "held_out": 12_256}, {"train": 2_000, "held_out": 500}]


def test_images_does_not_apply_to_a_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(load_embryos(16, train=60, held_out=100), synthetic=False, source="160 images of the folder embryo")
    monkeypatch.setattr(data, "load_embryos", lambda size, **drawn: own)
    with pytest.raises(Skip, match=r"\bimages=61,280\b.*\b160 images"):
        embryo(images=61_280)
    assert not embryo().data.synthetic


@pytest.mark.slow
def test_a_users_folder_is_trained_on_and_named_in_the_record(accelbench: Run, tmp_path: Path) -> None:
    for name, brightness in (("one", 40), ("two", 200)):
        folder = tmp_path / "data" / "embryo" / name
        folder.mkdir(parents=True)
        for number in range(25):
            Image.new("RGB", (20 + number, 30), (brightness + number,) * 3).save(folder / f"{number}.png")
    small = ("image=16", "batch=4", "epochs=3", "jit_compile=off")
    arguments = [*(word for value in small for word in ("--param", value)), "--no-ceilings", "--out", "out"]
    where = {"ACCELBENCH_DATA": str(tmp_path / "data")}
    process = accelbench("run", "deep-mnist-embryo", "--device", "cpu", *arguments, **where)
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "out")
    assert record["data"]["synthetic"] is False
    assert (record["data"]["train"], record["data"]["held_out"]) == (40, 10)
    assert record["data"]["source"] == "50 images of the folder embryo"


def test_the_accuracy_floor_rises_with_the_number_of_images() -> None:
    drawn = deep_mnist_embryo.floors(5, 500, synthetic=True)
    reached = [floor(drawn, images) for images in (100, 4_000, 8_000, 80_000)]
    assert reached == sorted(set(reached))
    anybodys, few = (deep_mnist_embryo.floors(5, held_out, synthetic=False) for held_out in (500, 12))
    assert floor(anybodys, 80_000) == pytest.approx(0.16), "a user's images may be harder"
    assert floor(few, 80_000) == 0, "with few images a result below chance may be random"


def test_an_image_size_that_cannot_be_halved_is_skipped() -> None:
    with pytest.raises(Skip, match=r"\b4, not 18$"):
        embryo(image=18)
    with pytest.raises(Skip, match=r"\b32, not 48$"):
        residual(image=48)


def test_a_network_that_does_not_fit_in_memory_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
    with pytest.raises(Skip, match="1 MiB"):
        embryo()
    with pytest.raises(Skip, match="1 MiB"):
        residual()


def test_resnet_50_has_the_published_parameters() -> None:
    # 25,557,032 trainable, as in torchvision's resnet50, and two running statistics for each of 26,560 filters.
    assert resnet50.parameters(1000) == 25_557_032 + 2 * 26_560


@pytest.mark.slow
def test_a_fixed_batch_is_learnt_and_a_rising_loss_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resnet50, "STAGES", ((64, 1), (128, 1), (256, 1), (512, 1)))
    task = residual()
    history = task.fit([])
    qualities = task.evaluate()
    assert task.verify(history, qualities).passed
    risen = {"loss_first": qualities["loss_last"], "loss_last": qualities["loss_first"]}
    assert not task.verify(history, qualities | risen).passed
    assert task.data == replace(task.data, train=4, held_out=0, synthetic=True)


def test_a_users_images_have_training_curves_and_qualities_by_class(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for part, count in (("train", 9), ("val", 4)):
        for name, brightness in (("dark", 20), ("bright", 220)):
            folder = tmp_path / "imagenet" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (40, 36), (brightness + number,) * 3).save(folder / f"{number}.png")
    monkeypatch.setattr(resnet50, "build", brightness_classifier)
    task = residual(epochs=2)
    quality = QualityCurve(task, clock := StepClock())
    task.fit([clock.callback(), quality.callback()])
    curves = quality.curves()
    expected = {"precision", "recall", "f1", "val_accuracy", "val_precision", "val_recall", "val_f1", "val_loss"}
    assert {name: len(values) for name, values in curves.items()} == dict.fromkeys(expected, 2)
    assert curves["f1"] == curves["val_f1"] == [1.0, 1.0]
    assert task.confusion is not None
    assert task.confusion().counts == ((4, 0), (0, 4))


def brightness_classifier(size: int, classes: int) -> Any:
    """Return a classifier of bright (class 0) and dark images."""
    import keras

    image = keras.Input((size, size, 3))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Rescaling(1 / 127.5, offset=-1)(image))
    model = keras.Model(image, keras.layers.Dense(classes, "softmax")(x))
    model.layers[-1].set_weights([np.array([[2, -2]] * 3), np.zeros(classes)])
    return model


DEVICES = """
import json, sys
from accelbench.profiling.records.point import Point
from accelbench.workloads import data
from accelbench.workloads.data import load_embryos
data.load_embryos = lambda size, **drawn: load_embryos(size, train=60, held_out=20)
from accelbench.workloads.training.keras_model import use_backend
params = {"image": 16, "batch": 10, "epochs": 2, "devices": int(sys.argv[2])}
point = Point("deep-mnist-embryo", "cpu", params, sys.argv[1], 5)
use_backend(point)
import keras
dropout = keras.layers.Dropout
keras.layers.Dropout = lambda rate: dropout(0.0)
from accelbench.workloads.deep_mnist_embryo import deep_mnist_embryo
print(json.dumps(deep_mnist_embryo(point).fit([])["loss"]))
"""


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_devices_train_as_one(backend: str, tmp_path: Path) -> None:
    losses = []
    for devices in (1, 2):
        process = subprocess.run(
            [sys.executable, "-c", DEVICES, backend, str(devices)],
            cwd=ROOT,
            env=os.environ | {"ACCELBENCH_DATA": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        losses.append(json.loads(process.stdout.splitlines()[-1]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
