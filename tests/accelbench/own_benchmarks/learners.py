"""A tiny training whose record says exactly what was learnt: that of several replicas is compared with one alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from profiling.benchmark import Data, Metric, Point, Training, Verification, Work, benchmark
from workloads.distribution import DISTRIBUTION_AXES, DISTRIBUTION_CHOICES, DISTRIBUTION_LIMITS, DISTRIBUTION_ONLY
from workloads.training.keras_model import TRAINING_AXES, TRAINING_CHOICES

EXAMPLES = 48
"""So few that a set of them is a whole number below 2**53, which a metric holds exactly."""
FEATURES, UNITS, CLASSES = 8, 16, 4


@benchmark(
    "learn",
    devices=("cpu", "gpu"),
    axes={"batch": (8,), "epochs": (4,), "sync": ("on",), **TRAINING_AXES},
    choices={"sync": ("on", "off")} | TRAINING_CHOICES | DISTRIBUTION_CHOICES,
    optional=DISTRIBUTION_AXES,
    limits=DISTRIBUTION_LIMITS,
    only=DISTRIBUTION_ONLY,
    figure="items",
    backends=("tensorflow", "jax", "torch"),
)
def learn(point: Point) -> Training:
    """Train a small network; with sync=off the replicas do not exchange what they learn, as they should."""
    from workloads.training.keras_model import jit_compile, use_backend

    strategy = use_backend(point)
    import keras
    import numpy as np
    from keras import layers

    from profiling.flops import model_flops
    from workloads.training.pipeline import feed

    rng = np.random.default_rng(7)
    x = rng.normal(size=(EXAMPLES, FEATURES)).astype("float32")
    y = keras.utils.to_categorical((x @ rng.normal(size=(FEATURES, CLASSES))).argmax(axis=1), CLASSES)
    batch, epochs = strategy.batch, point["epochs"]
    batches = feed(point, (x, y), batch=batch, epochs=epochs, share=strategy.share)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((FEATURES,)),
                layers.Dense(UNITS, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
                layers.Dense(CLASSES, activation="softmax", dtype="float32"),
            ]
        )
        model.compile(
            keras.optimizers.Adam(0.01),
            "categorical_crossentropy",
            metrics=["accuracy"],
            jit_compile=jit_compile(point),
        )
    exchange = strategy.exchange(model, batches)
    trained: dict[str, Metric] = {}

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        if point["sync"] == "off":
            assert exchange is not None
            exchange.apart(callbacks)
            return {"loss": [0.0]}
        history = strategy.train(model, batches, epochs, callbacks)
        for name in ("loss", "accuracy"):
            trained[f"first_{name}"], trained[f"last_{name}"] = Metric(history[name][0]), Metric(history[name][-1])
        return history

    def evaluate() -> dict[str, Metric]:
        """Sums over all weights, the loss of all examples, and which of these were this process's first batch."""
        weights = np.concatenate([part.ravel() for part in model.get_weights()]).astype("float64")
        of_truth = (strategy.predict(model, x, batch_size=batch) * y).sum(axis=1)
        first = np.asarray(next(iter(batches.data))[0])
        loaded = [i for i in range(EXAMPLES) if (x[i] == first).all(axis=1).any()]
        return trained | {
            "weights_sum": Metric(float(weights.sum())),
            "weights_norm": Metric(float(np.linalg.norm(weights))),
            "weights_projection": Metric(float(weights @ np.random.default_rng(8).normal(size=weights.size))),
            "final_loss": Metric(float(-np.log(of_truth).mean())),
            "first_batch": Metric(float(sum(2**i for i in loaded))),
        }

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        loss = qualities["final_loss"].value
        return Verification(math.isfinite(loss), "a loss", expected="a finite one", found=f"{loss}")

    work = Work(flops=model_flops(model, batch).training, items=batch, item="examples")
    return Training(fit, evaluate, verify, work, Data("random numbers", EXAMPLES, EXAMPLES), model, exchange=exchange)
