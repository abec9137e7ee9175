"""Cell counting in embryo images with a convolutional network of 16.8 million parameters.

Lawrence, Malmsten, Rybka, Sabol & Triplin, "Comparing TensorFlow Deep Learning Performance Using CPUs, GPUs, Local PCs
and Cloud" (Pace University, 2017): TensorFlow's tutorial "Deep MNIST for Experts", adapted to embryo images. The paper
states 16.8 million parameters; greyscale images of 64×64 in five classes give 16,835,461.
"""

from __future__ import annotations

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

TARGET = 0.6
"""Held-out accuracy; chance is 0.2 with five classes."""


FLOORS = ((16_000, 0.55), (6_000, 0.4), (3_000, 0.3))
"""(synthetic 64×64 images trained on, minimum held-out accuracy). Measured on five classes: 0.73 after 18,000 images,
0.57 after 8,000, 0.47 after 4,000."""
IMAGES = 2_500
"""Default number of synthetic images."""
HELD_OUT = 5
"""One image in `HELD_OUT` is held out."""
FEW = 100
"""Minimum number of held-out images for the chance floor on a user's images; with fewer, results below it may be
chance."""


@training(
    "deep-mnist-embryo",
    axes={"image": (64,), "batch": (50,), "epochs": (4,)},
    limits={"image": (4, 1024), "images": (10, 1 << 20)},
    optional={"images": (IMAGES,)},
    distributed=True,
)
def deep_mnist_embryo(point: Point, strategy: Strategy) -> Training:
    """Train the paper's network to count cells, on the user's folder of images or on synthetic ones.

    One fifth of the `images` is held out: the paper's 61,280 leave 49,024 for training.
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
        raise Skip(f"the network halves an image twice: image must be a multiple of 4, not {size}")
    images = int(point.params.get("images", IMAGES))
    held_out = images // HELD_OUT
    embryos = load_embryos(size, train=images - held_out, held_out=held_out)
    if images != IMAGES and not embryos.synthetic:
        raise Skip(f"images={images:,} applies to synthetic images, but the data folder holds {embryos.source}")
    classes = len(embryos.classes)
    x_train, x_test = (x[..., np.newaxis] for x in (embryos.x_train, embryos.x_test))
    batches = strategy.feed((x_train, keras.utils.to_categorical(embryos.y_train, classes)))
    if point.device == "cpu":
        # Weights with gradient and Adam's two moments; per image the activations of both convolutions and their
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
        trained_on=(x_train, embryos.y_train),
        names=embryos.classes,
    )


def parameters(size: int, classes: int) -> int:
    """Return the number of parameters: two 5×5 convolutions, each followed by 2×2 pooling, and two dense layers."""
    convolutions = (25 * 1 + 1) * 32 + (25 * 32 + 1) * 64
    return convolutions + ((size // 4) ** 2 * 64 + 1) * 1024 + (1024 + 1) * classes


def floors(classes: int, held_out: int, synthetic: bool) -> tuple[tuple[int, float], ...]:
    """Return (images trained on, minimum held-out accuracy); on a user's images the only floor excludes chance."""
    guessing = 0.8 / classes if held_out >= FEW else 0.0
    return (*(FLOORS if synthetic else ()), (0, guessing))
