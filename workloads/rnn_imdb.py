"""Sentiment of film reviews by bidirectional LSTMs and GRUs.

Sitito et al., "Performance of Parallel Computing in Training Deep Learning Models" (2021); the settings that it leaves
open are those of Keras's example `bidirectional_lstm_imdb`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiling.benchmark import Training, benchmark
from profiling.records.point import Point
from profiling.records.quality import Data, Metric, Verification
from profiling.records.work import Work
from workloads.training.keras_model import TRAINING_AXES, TRAINING_CHOICES, arithmetic

WORDS, EMBEDDING = 20_000, 128
TARGET = 0.83
"""Held-out accuracy."""
AXES = {"units": (64,), "layers": (1,), "length": (100,), "batch": (32,), "epochs": (4,), **TRAINING_AXES}
LIMITS = {"units": (1, 4096), "layers": (1, 8), "length": (10, 2_000)}


@benchmark(
    "bilstm-imdb",
    devices=("cpu", "gpu", "tpu"),
    axes=AXES,
    choices=TRAINING_CHOICES,
    limits=LIMITS,
    figure="items",
    bound="arithmetic",
    dtype=arithmetic,
    backends=("tensorflow", "jax", "torch"),
    time_limit_s=7200,
)
def bilstm_imdb(point: Point) -> Training:
    """Train a bidirectional LSTM to tell favourable film reviews from the others."""
    return _reviews(point, "LSTM")


@benchmark(
    "bigru-imdb",
    devices=("cpu", "gpu", "tpu"),
    axes=AXES,
    choices=TRAINING_CHOICES,
    limits=LIMITS,
    figure="items",
    bound="arithmetic",
    dtype=arithmetic,
    backends=("tensorflow", "jax", "torch"),
    time_limit_s=7200,
)
def bigru_imdb(point: Point) -> Training:
    """Train a bidirectional GRU to tell favourable film reviews from the others."""
    return _reviews(point, "GRU")


def _reviews(point: Point, cell: str) -> Training:
    from workloads.training.keras_model import embedding, jit_compile, train, use_backend

    use_backend(point)
    import keras
    from keras import layers

    from profiling.flop_counts.layers import model_flops
    from workloads.data import load_imdb
    from workloads.training.pipeline import feed
    from workloads.training.quality import classification, verify_classifier

    reviews = load_imdb(WORDS, point["length"])
    batch, epochs = point["batch"], point["epochs"]
    batches = feed(point, (reviews.x_train, reviews.y_train.astype("float32")[:, None]), batch=batch, epochs=epochs)

    model = keras.Sequential([keras.Input((point["length"],), dtype="int32"), embedding(WORDS, EMBEDDING)])
    for layer in range(point["layers"]):
        sequences = layer + 1 < point["layers"]
        model.add(layers.Bidirectional(getattr(layers, cell)(point["units"], return_sequences=sequences)))
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(1, activation="sigmoid", dtype="float32"))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"], jit_compile=jit_compile(point))

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        return train(model, batches, epochs, callbacks)

    def evaluate() -> dict[str, Metric]:
        return classification(reviews.y_test, model.predict(reviews.x_test, batch_size=batch, verbose=0))

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        return verify_classifier(
            history,
            qualities,
            parameters=model.count_params(),
            expected_parameters=parameters(cell, point["units"], point["layers"]),
            floor=floor(epochs * batches.steps * batch),
            source=reviews.source,
        )

    work = Work(flops=model_flops(model, batch).training, items=batch, item="reviews")
    data = Data(reviews.source, len(reviews.x_train), len(reviews.x_test), reviews.synthetic)
    return Training(fit, evaluate, verify, work, data, model, target=("test_accuracy", TARGET))


def parameters(cell: str, units: int, layers: int) -> int:
    """Of embedding, stack and output: per unit and gate a weight per input and per state, and a bias (a GRU's two)."""
    gates, biases = {"LSTM": (4, 1), "GRU": (3, 2)}[cell]
    inputs = [EMBEDDING, *[2 * units] * (layers - 1)]
    stack = sum(2 * gates * units * (size + units + biases) for size in inputs)
    return WORDS * EMBEDDING + stack + 2 * units + 1


FLOORS = ((16_000, 0.75), (0, 0.4))
"""Held-out accuracy that a trained model exceeds after so many reviews; before, worse than random is refused."""


def floor(reviews: int) -> float:
    """The held-out accuracy that so many reviews must have brought."""
    return next(accuracy for least, accuracy in FLOORS if reviews >= least)
