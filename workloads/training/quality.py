"""Quality of a trained classifier on held-out examples, and the verification of its training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from accelbench.profiling.records.quality import ConfusionMatrix, Metric, Quality, Verification

Floors = Sequence[tuple[int, float]]
"""(training examples, minimum quality), in descending order of examples."""

CLASSIFIER = (
    Quality("test_accuracy", headline=True, of="examples"),
    Quality("test_precision"),
    Quality("test_recall"),
    Quality("test_f1"),
    Quality("test_loss", better="lower"),
)
"""Quality metrics from `classification`."""
TRAINING_CURVES = ("precision", "recall", "f1")
"""Qualities that are evaluated on training examples, too; loss and accuracy are in the history."""
SUM_TOLERANCE = 1e-5
"""Float32 softmax probabilities sum to 1 within a few roundings of 6e-8."""
MOST_CLASSES = 100
"""Largest number of classes of a stored confusion matrix, which has 10,000 counts then."""


def classification(labels: Any, probabilities: Any) -> dict[str, Metric]:
    """Return cross-entropy in nats, accuracy, and macro-averaged precision, recall and F1.

    `labels` (N,) are integers; `probabilities` are (N, classes), or (N, 1) or (N,) for the second of two classes.
    """
    import numpy as np
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    labels, probabilities = np.asarray(labels), _by_class(probabilities)
    chosen = probabilities.argmax(axis=1)
    precision, recall, f1, _ = precision_recall_fscore_support(labels, chosen, average="macro", zero_division=0)
    of_truth = np.clip(probabilities[np.arange(len(labels)), labels], 1e-7, 1)
    return {
        "test_accuracy": Metric(float(accuracy_score(labels, chosen))),
        "test_precision": Metric(float(precision)),
        "test_recall": Metric(float(recall)),
        "test_f1": Metric(float(f1)),
        "test_loss": Metric(float(-np.log(of_truth).mean())),
        "sum_error": Metric(float(np.abs(probabilities.sum(axis=1) - 1).max())),
    }


def training_quality(labels: Any, probabilities: Any) -> dict[str, float]:
    """Return precision, recall and F1 on training examples, by curve name; arguments as in `classification`."""
    found = classification(labels, probabilities)
    return {name: found[f"test_{name}"].value for name in TRAINING_CURVES}


def confusion_of(labels: Any, probabilities: Any, names: Sequence[str] = ()) -> ConfusionMatrix:
    """Return the confusion matrix of the classes that occur, named by `names` or their numbers.

    `labels` and `probabilities` are as in `classification`. The matrix is empty for more than `MOST_CLASSES` classes.
    """
    import numpy as np
    from sklearn.metrics import confusion_matrix

    labels, chosen = np.asarray(labels), _by_class(probabilities).argmax(axis=1)
    classes = np.union1d(labels, chosen).tolist()
    if len(classes) > MOST_CLASSES:
        return ConfusionMatrix(reason=f"{len(classes):,} classes occur, and at most {MOST_CLASSES} are stored")
    return ConfusionMatrix(
        classes=tuple(names[number] if names else str(number) for number in classes),
        counts=tuple(map(tuple, confusion_matrix(labels, chosen, labels=classes).tolist())),
    )


def _by_class(probabilities: Any) -> Any:
    """Return the probabilities as (N, classes); (N, 1) and (N,) are for the second of two classes."""
    import numpy as np

    probabilities = np.asarray(probabilities, np.float64)
    if probabilities.ndim == 1 or probabilities.shape[1] == 1:
        second = probabilities.reshape(-1)
        return np.stack([1 - second, second], axis=1)
    return probabilities


def worst_accuracy(labels: Any, probabilities: Any, groups: Any) -> float:
    """Return the lowest accuracy of any group; `groups` (N,) is the group of each example."""
    import numpy as np

    right = np.asarray(probabilities).argmax(axis=1) == np.asarray(labels)
    return min(float(right[groups == group].mean()) for group in np.unique(groups))


def verify_classifier(
    history: Mapping[str, Sequence[float]],
    qualities: Mapping[str, Metric],
    *,
    parameters: int,
    expected_parameters: int,
    floor: float,
    source: str,
) -> Verification:
    """Verify a trained classifier: number of parameters, falling loss, probability sums, and held-out accuracy.

    The accuracy must reach `floor`. After a single epoch the loss only needs to be finite.
    """
    losses, accuracy, off = history["loss"], qualities["test_accuracy"].value, qualities["sum_error"].value
    return Verification(
        passed=parameters == expected_parameters and off <= SUM_TOLERANCE and fell(losses) and accuracy >= floor,
        method=f"parameters, probabilities, loss and held-out accuracy on {source}",
        expected=f"{expected_parameters:,} parameters, probability sums of 1, falling loss, accuracy ≥ {floor:.3g}",
        found=f"{parameters:,} parameters, probability sums off by {off:.1g}, "
        f"loss {losses[0]:.3g} to {losses[-1]:.3g}, accuracy {accuracy:.4f}",
    )


def floor(floors: Floors, examples: int) -> float:
    """Return the minimum quality after `examples` training examples; 0 below the lowest floor."""
    return next((least for enough, least in floors if examples >= enough), 0.0)


def fell(losses: Sequence[float]) -> bool:
    """Return whether the loss decreased from the first to the last epoch; a single epoch's loss must be finite."""
    return math.isfinite(losses[-1]) and (len(losses) == 1 or losses[-1] < losses[0])
