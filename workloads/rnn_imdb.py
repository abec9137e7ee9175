"""Sentiment classification of film reviews with bidirectional LSTMs and GRUs.

"Performance of Parallel Computing in Training Deep Learning Models", Modern Information Technologies and IT-Education
(2021); settings that the article does not state are taken from Keras's example `bidirectional_lstm_imdb`.
"""

from __future__ import annotations

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

WORDS, EMBEDDING = 20_000, 128
TARGET = 0.83
"""Held-out accuracy."""
FLOORS = ((16_000, 0.75), (0, 0.4))
"""(reviews trained on, minimum held-out accuracy); the last floor excludes results below chance."""
AXES = {"units": (64,), "layers": (1,), "length": (100,), "batch": (32,), "epochs": (4,)}
LIMITS = {"units": (1, 4096), "layers": (1, 8), "length": (10, 2_000)}


@training("bilstm-imdb", axes=AXES, limits=LIMITS)
def bilstm_imdb(point: Point, strategy: Strategy) -> Training:
    """Train a bidirectional LSTM to classify film reviews as positive or negative."""
    return _reviews(point, strategy, "LSTM")


@training("bigru-imdb", axes=AXES, limits=LIMITS)
def bigru_imdb(point: Point, strategy: Strategy) -> Training:
    """Train a bidirectional GRU to classify film reviews as positive or negative."""
    return _reviews(point, strategy, "GRU")


def _reviews(point: Point, strategy: Strategy, cell: str) -> Training:
    import keras
    from keras import layers

    from accelbench.workloads.data import load_imdb
    from accelbench.workloads.training.experiment import classifier
    from accelbench.workloads.training.keras_model import embedding, jit_compile

    reviews = load_imdb(WORDS, point["length"])
    batches = strategy.feed((reviews.x_train, reviews.y_train.astype("float32")[:, None]))

    model = keras.Sequential([keras.Input((point["length"],), dtype="int32"), embedding(WORDS, EMBEDDING)])
    for layer in range(point["layers"]):
        sequences = layer + 1 < point["layers"]
        model.add(layers.Bidirectional(getattr(layers, cell)(point["units"], return_sequences=sequences)))
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(1, activation="sigmoid", dtype="float32"))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"], jit_compile=jit_compile(point))
    return classifier(
        strategy,
        model,
        batches,
        Data(reviews.source, len(reviews.x_train), len(reviews.x_test), reviews.synthetic),
        (reviews.x_test, reviews.y_test),
        parameters=parameters(cell, point["units"], point["layers"]),
        floors=FLOORS,
        item="reviews",
        target=TARGET,
        trained_on=(reviews.x_train, reviews.y_train),
        names=("negative", "positive"),
    )


def parameters(cell: str, units: int, layers: int) -> int:
    """Return the number of parameters in the embedding, the stack and the output.

    Each gate of a unit has a weight per input and per recurrent state, and a bias; Keras's GRU has two biases.
    """
    gates, biases = {"LSTM": (4, 1), "GRU": (3, 2)}[cell]
    inputs = [EMBEDDING, *[2 * units] * (layers - 1)]
    stack = sum(2 * gates * units * (size + units + biases) for size in inputs)
    return WORDS * EMBEDDING + stack + 2 * units + 1
