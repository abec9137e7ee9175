"""Recognition of human activities by stacked bidirectional LSTMs.

Kimm, Paik & Kimm, "Performance Comparison of TPU, GPU, CPU on Google Colaboratory over Distributed Deep Learning"
(MCSoC-2021): layers of BiLSTM, then LSTM(64) and a softmax; Adam; swept over units and layers, repeated, 30 epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from profiling.benchmark import Training, benchmark
from profiling.records.point import Point
from profiling.records.quality import Data, Metric, Verification
from profiling.records.work import Work
from workloads.distribution import (
    DISTRIBUTION_AXES,
    DISTRIBUTION_CHOICES,
    DISTRIBUTION_LAYOUT,
    DISTRIBUTION_LIMITS,
    DISTRIBUTION_ONLY,
)
from workloads.training.keras_model import TRAINING_AXES, TRAINING_CHOICES, arithmetic

LAST_UNITS = 64
CLASSES = 6
TARGET = 0.85
"""Held-out accuracy, on subjects that the model has never seen."""


@benchmark(
    "bilstm-har",
    devices=("cpu", "gpu", "tpu"),
    axes={"units": (64,), "layers": (2,), "batch": (64,), "epochs": (15,), "repeats": (1,), **TRAINING_AXES},
    choices=TRAINING_CHOICES | DISTRIBUTION_CHOICES,
    optional=DISTRIBUTION_AXES,
    limits={"units": (1, 4096), "layers": (1, 8), "repeats": (1, 100), **DISTRIBUTION_LIMITS},
    only=DISTRIBUTION_ONLY,
    figure="items",
    bound="arithmetic",
    dtype=arithmetic,
    layout=DISTRIBUTION_LAYOUT,
    backends=("tensorflow", "jax", "torch"),
    time_limit_s=7200,
)
def bilstm_har(point: Point) -> Training:
    """Train the paper's stack of bidirectional LSTMs on a smartphone's sensors, with whole subjects held out."""
    from workloads.training.keras_model import jit_compile, use_backend

    strategy = use_backend(point)
    import keras
    from keras import layers

    from profiling.flop_counts.layers import model_flops
    from workloads.data import load_har
    from workloads.training.pipeline import feed
    from workloads.training.quality import classification, verify_classifier

    har = load_har()
    centre, spread = har.x_train.mean(axis=(0, 1)), har.x_train.std(axis=(0, 1))
    x_train, x_test = ((x - centre) / spread for x in (har.x_train, har.x_test))
    y_train = keras.utils.to_categorical(har.y_train, CLASSES)
    readings, channels = x_train.shape[1:]

    def build() -> Any:
        model = keras.Sequential([keras.Input((readings, channels))])
        for _ in range(point["layers"]):
            model.add(layers.Bidirectional(layers.LSTM(point["units"], return_sequences=True)))
        model.add(layers.LSTM(LAST_UNITS))
        model.add(layers.Dense(CLASSES, activation="softmax", dtype="float32"))
        return model

    def compiled(model: Any) -> Any:
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"], jit_compile=jit_compile(point))
        return model

    with strategy.scope():
        model = compiled(build())
    batch, epochs, share = strategy.batch, point["epochs"], strategy.share
    batches = feed(point, (x_train, y_train), batch=batch, epochs=epochs, share=share)
    repeated: list[dict[str, Metric]] = []

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        """The epochs of all repeats, one after the other; each repeat has its own initial weights and data order."""
        history = strategy.train(model, batches, epochs, callbacks)
        for repeat in range(1, point["repeats"]):
            repeated.append(quality())
            again = replace(point, seed=point.seed + repeat)
            keras.utils.set_random_seed(again.seed)
            with strategy.scope():
                compiled(model).set_weights(build().get_weights())
            fed = feed(again, (x_train, y_train), batch=batch, epochs=epochs, share=share)
            more = strategy.train(model, fed, epochs, callbacks)
            history = {name: values + more[name] for name, values in history.items()}
        return history

    def quality() -> dict[str, Metric]:
        return classification(har.y_test, strategy.predict(model, x_test, batch_size=batch))

    def evaluate() -> dict[str, Metric]:
        """That of the present weights; after all repeats their mean, and the standard deviation beside it."""
        last = quality()
        if len(repeated) + 1 < point["repeats"] or not repeated:
            return last
        values = {name: [found[name].value for found in (*repeated, last)] for name in last}
        means = {name: Metric(mean(found)) for name, found in values.items()}
        return means | {f"{name}_std": Metric(stdev(found)) for name, found in values.items() if name != "sum_error"}

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        return verify_classifier(
            {"loss": history["loss"][-epochs:]},
            qualities,
            parameters=model.count_params(),
            expected_parameters=parameters(point["units"], point["layers"], channels),
            floor=floor(epochs * batches.steps * batch),
            source=har.source,
        )

    work = Work(flops=model_flops(model, batch).training, items=batch, item="windows")
    data = Data(har.source, train=len(x_train), held_out=len(x_test))
    return Training(
        fit, evaluate, verify, work, data, model, ("test_accuracy", TARGET), strategy.exchange(model, batches)
    )


def parameters(units: int, layers: int, channels: int) -> int:
    """Of the stack: a unit of an LSTM has four gates, each with a weight per input and per unit's state, and a bias."""

    def lstm(inputs: int, units: int) -> int:
        return 4 * units * (inputs + units + 1)

    first = 2 * lstm(channels, units)
    return first + (layers - 1) * 2 * lstm(2 * units, units) + lstm(2 * units, LAST_UNITS) + CLASSES * (LAST_UNITS + 1)


FLOORS = ((24_000, 0.8), (6_000, 0.55), (0, 0.2))
"""Held-out accuracy that a trained model exceeds after so many windows; six activities are about equally frequent."""


def floor(windows: int) -> float:
    """The held-out accuracy that so many windows must have brought."""
    return next(accuracy for least, accuracy in FLOORS if windows >= least)
