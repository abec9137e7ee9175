"""A training run assembled from a compiled model and its batches, in the same way for all workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accelbench.profiling.benchmark import Training
from accelbench.profiling.measure.flop_counts.layers import model_flops
from accelbench.profiling.records.quality import ConfusionMatrix, Data, Metric, Quality, Verification, WorstQuality
from accelbench.profiling.records.work import Work
from accelbench.workloads.data.pipeline import Feed, batches_from_memory
from accelbench.workloads.data.split import evenly
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.quality import (
    CLASSIFIER,
    Floors,
    classification,
    confusion_of,
    floor,
    training_quality,
    verify_classifier,
    worst_accuracy,
)

Fit = Callable[[list[Any]], Mapping[str, list[float]]]
Evaluate = Callable[[], dict[str, Metric]]
Verify = Callable[[Mapping[str, list[float]], dict[str, Metric]], Verification]
"""Types of the callables in `Training`."""


def experiment(
    strategy: Strategy,
    model: Any,
    batches: Feed,
    data: Data,
    *,
    evaluate: Evaluate,
    verify: Verify,
    qualities: tuple[Quality, ...],
    item: str,
    items_each: int = 1,
    flops: float | None = None,
    fit: Fit | None = None,
    target: tuple[str, float] | None = None,
    confusion: Callable[[], ConfusionMatrix] | None = None,
    evaluate_training: Callable[[], Mapping[str, float]] | None = None,
) -> Training:
    """Return the training of a compiled model on `batches`, with the point's strategy and number of epochs.

    Work is counted in `item`, with `items_each` per example. By default the `flops` of a step are computed from the
    model's layers, and `fit` trains on the batches. `qualities` are the metrics from `evaluate` that measure the
    model's quality; `target` is the name of one of them and the value to reach.
    """

    def fit_batches(callbacks: list[Any]) -> Mapping[str, list[float]]:
        return strategy.train(model, batches, strategy.point["epochs"], callbacks)

    batch, exchange = strategy.batch, strategy.exchange(model, batches)
    work = Work(flops=flops or model_flops(model, batch).training, items=batch * items_each, item=item)
    fit = fit or fit_batches
    return Training(
        fit,
        evaluate,
        verify,
        work,
        data,
        model,
        target,
        exchange,
        qualities,
        strategy.layout,
        evaluate_training=evaluate_training,
        confusion=confusion,
        from_memory=batches_from_memory,
    )


def examples_seen(strategy: Strategy, batches: Feed, history: Mapping[str, list[float]]) -> int:
    """Return the number of examples on which all replicas together were trained."""
    return len(history["loss"]) * batches.steps * strategy.batch


def classifier(
    strategy: Strategy,
    model: Any,
    batches: Feed,
    data: Data,
    held_out: tuple[Any, Any],
    *,
    parameters: int,
    floors: Floors,
    item: str,
    items_each: int = 1,
    target: float | None = None,
    subjects: Any = None,
    trained_on: tuple[Any, Any] | None = None,
    names: Sequence[str] = (),
) -> Training:
    """Return the training of a model with class probabilities as outputs.

    `held_out` are inputs and integer labels; `parameters` is the expected number of parameters. `floors` holds the
    minimum held-out accuracy by number of training examples, and `target` is the accuracy to reach. With `subjects`
    (N,), the person of each held-out example, the lowest accuracy among them is an additional metric. With
    `trained_on`, the training inputs and integer labels, as many of them as are held out are evaluated after each
    epoch, too. `names` are the names of the classes.
    """
    last: list[tuple[Any, Any]] = []
    """Labels and probabilities of the last evaluation."""
    qualities: tuple[Quality, ...] = CLASSIFIER
    if subjects is not None:
        worst = WorstQuality("test_accuracy_worst_subject", f"{len(set(subjects.tolist()))} held-out subjects")
        qualities = tuple(replace(each, worst=(worst,)) if each.headline else each for each in CLASSIFIER)

    def predicted(x: Any, labels: Any) -> tuple[Any, Any]:
        """Return labels (N,) and probabilities (N, classes)."""
        probabilities = strategy.predict(model, x, batch_size=min(strategy.batch, len(x)))
        return labels.reshape(-1), probabilities.reshape(-1, probabilities.shape[-1])

    def evaluate() -> dict[str, Metric]:
        last[:] = [found := predicted(*held_out)]
        if subjects is None:
            return classification(*found)
        return classification(*found) | {"test_accuracy_worst_subject": Metric(worst_accuracy(*found, subjects))}

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        return verify_classifier(
            history,
            qualities,
            parameters=model.count_params(),
            expected_parameters=parameters,
            floor=floor(floors, examples_seen(strategy, batches, history)),
            source=data.source,
        )

    plain = experiment(
        strategy,
        model,
        batches,
        data,
        evaluate=evaluate,
        verify=verify,
        qualities=qualities,
        item=item,
        items_each=items_each,
        target=None if target is None else ("test_accuracy", target),
        confusion=lambda: confusion_of(*last[0], names),
    )
    if trained_on is None:
        return plain
    chosen = evenly(min(len(held_out[0]), len(trained_on[0])), len(trained_on[0]))
    sample = tuple(array[chosen] for array in trained_on)
    return replace(plain, evaluate_training=lambda: training_quality(*predicted(*sample)))
