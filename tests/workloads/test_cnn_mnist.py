"""The paper's network is the paper's network, learns, and is refused when it did not."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from profiling.benchmark import Metric
from tests.conftest import Run
from workloads.cnn_mnist import ENOUGH_IMAGES, LEARNING, PARAMETERS, TRAINED, check

METRICS = {"parameters": Metric(PARAMETERS), "test_accuracy": Metric(0.97)}


def train(accelbench: Run, tmp_path: Path, *arguments: str, **changes: str | None) -> dict[str, Any]:
    process = accelbench("run", "cnn-mnist", "--device", "cpu", "--no-ceilings", "--out", "out", *arguments, **changes)
    lines = (tmp_path / "out" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1, process.stderr
    record: dict[str, Any] = json.loads(lines[0])
    return record


def test_two_epochs_on_real_digits_learn(accelbench: Run, tmp_path: Path) -> None:
    record = train(accelbench, tmp_path, "--param", "epochs=2", ACCELBENCH_DATA=str(tmp_path))
    assert record["status"] == "measured", record["reason"]
    assert record["metrics"]["parameters"]["value"] == 1_199_882
    assert record["metrics"]["test_accuracy"]["value"] > LEARNING
    assert record["metrics"]["train_images"]["value"] == 4000
    assert record["curves"]["loss"][1] < record["curves"]["loss"][0]
    # 4,000 digits are 31 full batches and one of 32.
    assert record["timing"]["summary"]["count"] == 2 * 30 - 5
    assert record["work"]["items"] == 128
    assert record["timing"]["timer"] == "steps"


def test_the_work_of_a_step_is_the_papers_network_by_hand(accelbench: Run, tmp_path: Path) -> None:
    record = train(accelbench, tmp_path, "--param", "epochs=1", "--param", "batch=400")
    layers = [26 * 26 * 9 * 32, 24 * 24 * 9 * 32 * 64, 9216 * 128, 128 * 10]
    assert record["work"]["flops"] == 2 * 400 * (3 * sum(layers) - layers[0])


def test_a_missing_framework_is_skipped_with_what_to_install(accelbench: Run, tmp_path: Path) -> None:
    record = train(accelbench, tmp_path, "--backend", "torch")
    assert record["status"] == "skipped"
    assert "torch is not installed" in record["reason"]


@pytest.mark.parametrize(
    ("losses", "changes", "images"),
    [
        ([2.3, 2.4], {}, 0),
        ([2.3, math.nan], {}, 0),
        ([math.inf], {}, 0),
        ([2.3, 1.0], {"test_accuracy": Metric(0.11)}, 0),
        ([2.3, 1.0], {"test_accuracy": Metric(TRAINED - 0.01)}, ENOUGH_IMAGES),
        ([2.3, 1.0], {"parameters": Metric(PARAMETERS + 1)}, 0),
    ],
    ids=["rising loss", "NaN", "infinite", "chance", "half trained", "another network"],
)
def test_a_model_that_did_not_learn_fails(losses: list[float], changes: dict[str, Metric], images: int) -> None:
    assert check([2.3, 1.0], METRICS, images).passed
    assert not check(losses, METRICS | changes, images).passed
