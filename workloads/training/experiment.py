"""A training run assembled from a compiled model and its batches, in the same way for all workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from accelbench.profiling.benchmark import Training
from accelbench.profiling.measure.flop_counts.layers import model_flops
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification, WorstQuality
from accelbench.profiling.records.work import Work
from accelbench.workloads.data.pipeline import Feed, batches_from_memory
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.quality import (
    CLASSIFIER,
    Floors,
    classification,
    floor,
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
) -> Training:
    """Return the training of a model with class probabilities as outputs.

    `held_out` are inputs and integer labels; `parameters` is the expected number of parameters. `floors` holds the
    minimum held-out accuracy by number of training examples, and `target` is the accuracy to reach. With `subjects`
    (N,), the person of each held-out example, the lowest accuracy among them is an additional metric.
    """
    x, labels = held_out
    qualities: tuple[Quality, ...] = CLASSIFIER
    if subjects is not None:
        worst = WorstQuality("test_accuracy_worst_subject", f"{len(set(subjects.tolist()))} held-out subjects")
        qualities = tuple(replace(each, worst=(worst,)) if each.headline else each for each in CLASSIFIER)

    def evaluate() -> dict[str, Metric]:
        probabilities = strategy.predict(model, x, batch_size=min(strategy.batch, len(x)))
        found = labels.reshape(-1), probabilities.reshape(-1, probabilities.shape[-1])
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

    return experiment(
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
    )
