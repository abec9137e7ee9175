"""Verification rejects detectors that did not learn, have other parameters, or detect objects twice."""

from __future__ import annotations

from typing import Any

import pytest

from accelbench.profiling.records.quality import Metric, Verification
from accelbench.workloads.vision.shapes import drawn_shapes
from accelbench.workloads.vision.training import verify_detector


def verify(**changes: Any) -> Verification:
    given: dict[str, Any] = {
        "history": {"loss": [2.0, 1.0]},
        "qualities": {"test_map50": Metric(0.6), "largest_overlap": Metric(0.5001)},
        "floor": 0.5,
        "parameters": (1000, 1000),
    }
    given |= changes
    history, qualities = given.pop("history"), given.pop("qualities")
    return verify_detector(history, qualities, quality="test_map50", overlap=0.5, data=drawn_shapes(64, 1), **given)


def test_a_trained_detector_passes_with_a_description() -> None:
    outcome = verify()
    assert outcome.passed
    assert " map50 " in outcome.method
    assert str(outcome.expected).startswith("1,000 parameters, ")
    assert str(outcome.expected).endswith("overlap ≤ 0.5, map50 ≥ 0.5")
    assert outcome.found == "1,000 parameters, loss 2 to 1, overlap 0.5, map50 0.6000"


@pytest.mark.parametrize(
    "changes",
    [
        {"history": {"loss": [1.0, 2.0]}},
        {"history": {"loss": [float("nan")]}},
        {"qualities": {"test_map50": Metric(0.49), "largest_overlap": Metric(0.2)}},
        {"qualities": {"test_map50": Metric(0.9), "largest_overlap": Metric(0.6)}},
        {"parameters": (1001, 1000)},
    ],
)
def test_each_defect_fails(changes: dict[str, Any]) -> None:
    assert not verify(**changes).passed


def test_the_loss_of_a_single_epoch_need_not_fall() -> None:
    assert verify(history={"loss": [3.0]}).passed
