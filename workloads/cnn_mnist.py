"""Classification of handwritten digits by a small convolutional network.

T. Carneiro et al., "Performance Analysis of Google Colaboratory as a Tool for Accelerating Deep Learning
Applications", IEEE Access 6 (2018); the model is Keras's example `mnist_cnn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiling.benchmark import Metric, Point, Training, Verification, Work, benchmark

PARAMETERS = 1_199_882
CLASSES = 10


@benchmark(
    "cnn-mnist",
    devices=("cpu", "gpu", "tpu"),
    axes={"batch": (128,), "epochs": (12,)},
    figure="items",
    backends=("tensorflow", "jax", "torch"),
    time_limit_s=3600,
)
def cnn_mnist(point: Point) -> Training:
    """Train the paper's MNIST convolutional network on real digits."""
    from workloads.keras_model import use_backend

    use_backend(point)
    import keras
    import numpy as np
    from keras import layers

    from profiling.flops import model_flops
    from workloads.datasets import load_mnist

    digits = load_mnist()
    x_train, x_test = (x[..., np.newaxis].astype("float32") / 255 for x in (digits.x_train, digits.x_test))
    y_train, y_test = (keras.utils.to_categorical(y, CLASSES) for y in (digits.y_train, digits.y_test))

    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    # 1.0 is Adadelta's own step size and was Keras's default in 2018; today's default of 0.001 learns next to
    # nothing in twelve epochs.
    model.compile(
        optimizer=keras.optimizers.Adadelta(learning_rate=1.0), loss="categorical_crossentropy", metrics=["accuracy"]
    )

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        history = model.fit(
            x_train, y_train, batch_size=point["batch"], epochs=point["epochs"], callbacks=callbacks, verbose=0
        )
        return {name: [float(value) for value in values] for name, values in history.history.items()}

    def evaluate() -> dict[str, Metric]:
        loss, accuracy = model.evaluate(x_test, y_test, batch_size=point["batch"], verbose=0)
        return {
            "test_accuracy": Metric(float(accuracy)),
            "test_loss": Metric(float(loss)),
            "test_images": Metric(len(x_test)),
            "train_images": Metric(len(x_train)),
            "parameters": Metric(model.count_params()),
        }

    def verify(history: Mapping[str, list[float]], metrics: dict[str, Metric]) -> Verification:
        images_seen = point["epochs"] * len(x_train)
        return check(history["loss"], metrics, images_seen)

    flops = model_flops(model, point["batch"]).training
    return Training(fit, evaluate, verify, Work(flops=flops, items=point["batch"], item="images"))


ENOUGH_IMAGES = 40_000
TRAINED = 0.93
"""After ENOUGH_IMAGES the held-out accuracy is higher than this for every seed that was tried."""
LEARNING = 0.2
"""Before, ten classes by chance are right one time in ten: of 1,000 images 200 are by chance in one case of 10^20."""


def check(losses: list[float], metrics: Mapping[str, Metric], images_seen: int) -> Verification:
    """A trained model has the paper's parameters, a loss that fell, and an accuracy that chance cannot give."""
    floor = TRAINED if images_seen >= ENOUGH_IMAGES else LEARNING
    parameters, accuracy = metrics["parameters"].value, metrics["test_accuracy"].value
    fell = len(losses) == 1 or losses[-1] < losses[0]  # false for NaN, too
    return Verification(
        passed=parameters == PARAMETERS and fell and losses[-1] < float("inf") and accuracy >= floor,
        method="parameters, falling loss and held-out accuracy",
        expected=f"{PARAMETERS:,} parameters, falling loss, accuracy ≥ {floor}",
        found=f"{parameters:,.0f} parameters, loss {losses[0]:.3g} to {losses[-1]:.3g}, accuracy {accuracy:.4f}",
    )
