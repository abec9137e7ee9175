"""Counting the cells of an embryo by a convolutional network of 16.8 million parameters.

Lawrence, Malmsten, Rybka, Sabol & Triplin, "Comparing TensorFlow Deep Learning Performance Using CPUs, GPUs, Local PCs
and Cloud" (Pace University, 2017): TensorFlow's tutorial "Deep MNIST for Experts", changed for images of embryos. The
paper states 16.8 million parameters; grey images of 64×64 in five classes give 16,835,461.
"""

from __future__ import annotations

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

TARGET = 0.6
"""Held-out accuracy; of five classes, one in five is right by chance."""


FLOORS = ((16_000, 0.55), (6_000, 0.4), (3_000, 0.3))
"""Held-out accuracy that the network exceeds after so many drawn images of 64×64; measured on five classes: 0.73 after
18,000 images, 0.57 after 8,000, 0.47 after 4,000."""
IMAGES = 2_500
"""The number of images that are drawn unless another is asked for."""
HELD_OUT = 5
"""One in so many images is held out."""
FEW = 100
"""Held-out images of a user's of which worse than guessing may be chance."""


@training(
    "deep-mnist-embryo",
    axes={"image": (64,), "batch": (50,), "epochs": (4,)},
    limits={"image": (4, 1024), "images": (10, 1 << 20)},
    optional={"images": (IMAGES,)},
    distributed=True,
)
def deep_mnist_embryo(point: Point, strategy: Strategy) -> Training:
    """Train the paper's network to count cells, on a folder of images of your own or on drawn ones.

    Drawn are so many `images`, of which a fifth is held out: of 61,280, as the paper has, 49,024 are trained on.
    """
    import keras
    import numpy as np
    from keras import layers

    from accelbench.profiling.machine.free_memory import require_memory
    from accelbench.workloads.data import load_embryos
    from accelbench.workloads.training.experiment import classifier
    from accelbench.workloads.training.keras_model import jit_compile

    size, batch = point["image"], strategy.batch
    if size % 4:
        raise Skip(f"the network halves an image twice: its size must be a multiple of 4, and {size} is none")
    images = int(point.params.get("images", IMAGES))
    held_out = images // HELD_OUT
    embryos = load_embryos(size, train=images - held_out, held_out=held_out)
    if images != IMAGES and not embryos.synthetic:
        raise Skip(f"{images:,} drawn images were asked for, and the data folder holds {embryos.source}")
    classes = len(embryos.classes)
    x_train, x_test = (x[..., np.newaxis] for x in (embryos.x_train, embryos.x_test))
    batches = strategy.feed((x_train, keras.utils.to_categorical(embryos.y_train, classes)))
    if point.device == "cpu":
        # Weights, their gradient and Adam's two moments; per image the activations of both convolutions and their
        # gradients.
        require_memory(4 * (4 * parameters(size, classes) + 2 * batch * size * size * (32 + 64 // 4)))

    model = keras.Sequential(
        [
            keras.Input((size, size, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(1024, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(classes, activation="softmax", dtype="float32"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-4),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=jit_compile(point),
    )
    return classifier(
        strategy,
        model,
        batches,
        Data(embryos.source, len(x_train), len(x_test), embryos.synthetic),
        (x_test, embryos.y_test),
        parameters=parameters(size, classes),
        floors=floors(classes, len(x_test), embryos.synthetic),
        item="images",
        target=TARGET,
    )


def parameters(size: int, classes: int) -> int:
    """Return the number of parameters: two convolutions of 5×5, each followed by halving, and two dense layers."""
    convolutions = (25 * 1 + 1) * 32 + (25 * 32 + 1) * 64
    return convolutions + ((size // 4) ** 2 * 64 + 1) * 1024 + (1024 + 1) * classes


def floors(classes: int, held_out: int, synthetic: bool) -> tuple[tuple[int, float], ...]:
    """Return the held-out accuracy that so many images must have brought; of a user's own only what guessing brings."""
    guessing = 0.8 / classes if held_out >= FEW else 0.0
    return (*(FLOORS if synthetic else ()), (0, guessing))
