"""Quality metrics agree with hand-computed values, and untrained classifiers fail verification."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from accelbench.profiling.records.quality import Metric
from accelbench.workloads.training.quality import (
    MOST_CLASSES,
    classification,
    confusion_of,
    verify_classifier,
    worst_accuracy,
)

LABELS = np.array([0, 0, 1, 1, 2, 2])


def test_metrics_by_hand() -> None:
    # Class 0: both correct. Class 1: one predicted as 2. Class 2: both correct.
    chosen = np.array([0, 0, 1, 2, 2, 2])
    found = classification(LABELS, np.eye(3)[chosen] * 0.8 + 0.2 / 3)
    assert found["test_accuracy"].value == pytest.approx(5 / 6)
    assert found["test_recall"].value == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert found["test_precision"].value == pytest.approx((1 + 1 + 2 / 3) / 3)
    assert found["test_f1"].value == pytest.approx((1 + 2 / 3 + 4 / 5) / 3)
    right, wrong = 0.8 + 0.2 / 3, 0.2 / 3
    assert found["test_loss"].value == pytest.approx(-(5 * math.log(right) + math.log(wrong)) / 6)


def test_the_worst_accuracy_is_the_minimum_over_groups() -> None:
    chosen = np.array([0, 1, 1, 2, 2, 2])
    assert worst_accuracy(LABELS, np.eye(3)[chosen], np.array([7, 9, 7, 9, 7, 7])) == 0
    assert worst_accuracy(LABELS, np.eye(3)[chosen], np.array([7, 7, 7, 9, 9, 9])) == pytest.approx(2 / 3)


def test_a_single_probability_belongs_to_the_second_class() -> None:
    found = classification([0, 1, 1], np.array([[0.1], [0.9], [0.4]]))
    assert found["test_accuracy"].value == pytest.approx(2 / 3)
    assert found["test_loss"].value == pytest.approx(-(2 * math.log(0.9) + math.log(0.4)) / 3)


def test_a_confusion_matrix_has_true_classes_as_rows() -> None:
    probabilities = np.eye(4)[[0, 0, 1, 2, 2, 2]]
    named = confusion_of(LABELS, probabilities, ("a", "b", "c", "d"))
    assert named.classes == ("a", "b", "c"), "a class without examples and predictions is left out"
    assert named.counts == ((2, 0, 0), (0, 1, 1), (0, 0, 2))
    assert confusion_of([1, 1, 0], np.array([[0.1], [0.9], [0.4]])).counts == ((1, 0), (1, 1))


def test_a_matrix_of_too_many_classes_is_empty_with_a_reason() -> None:
    most = confusion_of(np.arange(MOST_CLASSES), np.eye(MOST_CLASSES))
    assert (len(most.counts), most.classes[-1], most.reason) == (MOST_CLASSES, str(MOST_CLASSES - 1), None)
    more = confusion_of(np.arange(MOST_CLASSES + 1), np.eye(MOST_CLASSES + 1))
    assert not more.counts
    assert str(MOST_CLASSES + 1) in str(more.reason)


@dataclass(frozen=True)
class Trained:
    """Results of a successful training run."""

    losses: tuple[float, ...] = (2.3, 1.0)
    accuracy: float = 0.97
    sum_error: float = 3e-7
    parameters: int = 100

    def passes(self) -> bool:
        qualities = {"test_accuracy": Metric(self.accuracy), "sum_error": Metric(self.sum_error)}
        return verify_classifier(
            {"loss": list(self.losses)},
            qualities,
            parameters=self.parameters,
            expected_parameters=100,
            floor=0.93,
            source="digits",
        ).passed


def test_a_successful_training_passes() -> None:
    assert Trained().passes()
    assert Trained(losses=(1.0,)).passes()


@pytest.mark.parametrize(
    "bad",
    [
        Trained(losses=(2.3, 2.4)),
        Trained(losses=(2.3, math.nan)),
        Trained(losses=(math.inf,)),
        Trained(accuracy=0.92),
        Trained(accuracy=math.nan),
        Trained(sum_error=0.01),
        Trained(sum_error=math.nan),
        Trained(parameters=101),
    ],
    ids=["rising loss", "NaN", "infinite", "too bad", "no accuracy", "no probabilities", "NaN sums", "another network"],
)
def test_a_model_that_did_not_learn_fails(bad: Trained) -> None:
    assert not bad.passes()
