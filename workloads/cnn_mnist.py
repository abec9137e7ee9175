"""Handwritten digit classification with a small convolutional network.

T. Carneiro et al., "Performance Analysis of Google Colaboratory as a Tool for Accelerating Deep Learning
Applications", IEEE Access 6 (2018); the model is Keras's example `mnist_cnn`.
"""

from __future__ import annotations

import math

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

PAPERS_BATCH, PAPERS_WIDTH = 128, 100
CLASSES = 10
TARGET = 0.95
"""Held-out accuracy; a linear classifier stays below 0.91 on the 5,000 digits."""
FLOORS = ((310, 0.93), (62, 0.75), (0, 0.2))
"""(steps, minimum held-out accuracy), in steps of at least 128 images; smaller batches count in proportion.

Measured on the 5,000 digits at the published width: 0.960 to 0.982 after 312 to 420 steps (several seeds and held-out
parts), where a linear classifier reaches 0.905, and 0.857 to 0.940 after 62 to 70 steps (10 seeds). The last floor only
excludes chance: 100 of 500 images are correct by chance in 1 of 10^10 cases.
"""
CPU_BYTES = {"tensorflow": 8, "torch": 12, "jax": 28}
"""Memory of a training step on a CPU in bytes per activation and image, measured at batch 4,000: float32 values and
gradients, and the scratch space of the convolutions."""


@training(
    "cnn-mnist",
    axes={"batch": (PAPERS_BATCH,), "epochs": (12,)},
    limits={"width": (10, 1600)},
    optional={"width": (PAPERS_WIDTH,)},
    distributed=True,
    time_limit_s=3600,
)
def cnn_mnist(point: Point, strategy: Strategy) -> Training:
    """Train the paper's MNIST convolutional network on real digits; `width` scales filters and units, in percent."""
    import keras
    import numpy as np
    from keras import layers

    from accelbench.profiling.machine.free_memory import require_memory
    from accelbench.workloads.data import load_mnist
    from accelbench.workloads.training.experiment import classifier
    from accelbench.workloads.training.keras_model import jit_compile

    width = int(point.params.get("width", PAPERS_WIDTH))
    few, many, units = sizes(width)
    digits = load_mnist()
    x_train, x_test = (x[..., np.newaxis].astype("float32") / 255 for x in (digits.x_train, digits.x_test))
    batches = strategy.feed((x_train, keras.utils.to_categorical(digits.y_train, CLASSES)))

    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(few, 3, activation="relu"),
            layers.Conv2D(many, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(units, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(CLASSES, activation="softmax", dtype="float32"),
        ]
    )
    # 1.0 is the step size of the Adadelta paper, Keras's default in 2018. Today's default, 0.001, is too small for
    # twelve epochs.
    model.compile(
        optimizer=keras.optimizers.Adadelta(learning_rate=1.0),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=jit_compile(point),
    )
    if point.device == "cpu":
        activations = sum(math.prod(layer.output.shape[1:]) for layer in model.layers)
        require_memory(CPU_BYTES[str(point.backend)] * activations * strategy.batch)
    return classifier(
        strategy,
        model,
        batches,
        Data(digits.source, len(x_train), len(x_test)),
        (x_test, digits.y_test),
        parameters=parameters(width),
        floors=floors(strategy.batch, width),
        item="images",
        target=TARGET,
        trained_on=(x_train, digits.y_train),
    )


def sizes(width: int) -> tuple[int, int, int]:
    """Return the filters of both convolutions and the units of the dense layer at `width` percent of the paper's."""
    few, many, units = (round(published * width / 100) for published in (32, 64, 128))
    return few, many, units


def parameters(width: int) -> int:
    """Return the number of parameters: two 3×3 convolutions, which leave 12×12 positions, and two dense layers."""
    few, many, units = sizes(width)
    return (9 + 1) * few + (9 * few + 1) * many + (12 * 12 * many + 1) * units + (units + 1) * CLASSES


def floors(batch: int, width: int = PAPERS_WIDTH) -> list[tuple[int, float]]:
    """Return pairs of a number of training images and the minimum held-out accuracy after it.

    For networks narrower than the published one, the only floor excludes chance.
    """
    asked = FLOORS if width >= PAPERS_WIDTH else FLOORS[-1:]
    return [(steps * max(batch, PAPERS_BATCH), accuracy) for steps, accuracy in asked]
