"""Image classification at ImageNet size with ResNet-50.

Wang et al., "Performance Evaluation of Distributed Deep Learning Frameworks in Cloud Environment" (2019), measure it
under TensorFlow and Horovod. The network is He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), in
the variant v1.5 of current published results: the stride of a block is in its 3×3 convolution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data, Metric, Verification
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

CLASSES = 1000
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""(filters of a block's 3×3 convolution, number of blocks) of each stage."""
SMALLEST = 32
"""Total stride: the network halves an image five times."""
STEPS = {"cpu": 8, "gpu": 100, "tpu": 100}
"""Steps per epoch on synthetic images."""
ENOUGH = 200
"""Number of steps after which the loss on a user's images must have decreased."""


ACTIVATION_BYTES = 250e6
"""Memory of a training step in bytes per image of 224×224, in float32: about 30 million activations, twice."""


@training(
    "resnet50",
    axes={
        "image": (224,),
        "batch": {"cpu": (8,), "gpu": (64, 256), "tpu": (256,)},
        "epochs": (1,),
        "workers": (4,),
        "prefetch": (4,),
    },
    limits={"image": (SMALLEST, 1024)},
    distributed=True,
)
def resnet50(point: Point, strategy: Strategy) -> Training:
    """Train ResNet-50 v1.5 on a folder of images, or repeatedly on one synthetic batch."""
    import keras
    import numpy as np

    from accelbench.profiling.machine.free_memory import require_memory
    from accelbench.workloads.data.imagenet import Images, load_imagenet
    from accelbench.workloads.data.pipeline import feed
    from accelbench.workloads.training.experiment import experiment
    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.training.quality import CLASSIFIER, classification, confusion_of, training_quality

    size, batch = point["image"], strategy.batch
    if size % SMALLEST:
        raise Skip(f"the network halves an image five times: image must be a multiple of {SMALLEST}, not {size}")
    images = load_imagenet(size, point.seed)
    classes = images.classes if images else CLASSES
    if point.device == "cpu":
        require_memory(batch * ACTIVATION_BYTES * (size / 224) ** 2 + 4 * 4 * parameters(classes))
    if images:
        batches = strategy.feed(images.train)
        data = Data(images.source, len(images.train), len(images.held_out))
    else:
        rng = point.rng()
        pixels = rng.integers(0, 256, (batch, size, size, 3), np.uint8)
        labels = keras.utils.to_categorical(rng.integers(0, classes, batch), classes)
        batches = strategy.feed((pixels, labels), passes=STEPS[point.device])
        data = Data("synthetic: one batch of random pixels and labels", batch, 0, synthetic=True)

    model = build(size, classes)
    # Learning rate of Goyal et al. (2017), 0.1 per 256 images; it also overfits a single batch.
    sgd = keras.optimizers.SGD(0.1 * batch / 256, momentum=0.9, nesterov=True)
    model.compile(sgd, "categorical_crossentropy", metrics=["accuracy"], jit_compile=jit_compile(point))
    losses: list[float] = []
    """Mean loss of the epoch so far, after each step."""

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        seen = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: losses.append(logs["loss"]))
        return strategy.train(model, batches, point["epochs"], [*callbacks, seen])

    last: list[tuple[Any, Any]] = []
    """Labels and probabilities of the last evaluation."""

    def predicted(examples: Images) -> tuple[Any, Any]:
        """Return labels (N,) and probabilities (N, classes) of the images that fill batches."""
        one_pass = feed(point, examples, batch=min(batch, len(examples)), epochs=1, shuffle=False)
        probabilities = strategy.predict(model, one_pass.data, steps=one_pass.steps)
        return examples.known_labels[: len(probabilities)], probabilities

    def evaluate() -> dict[str, Metric]:
        fallen = {"loss_first": Metric(losses[0]), "loss_last": Metric(losses[-1])} if losses else {}
        if not images:
            return fallen
        last[:] = [predicted(images.held_out)]
        return fallen | classification(*last[0])

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        """Check that the loss falls on a repeated batch; on real images this takes at least `ENOUGH` steps."""
        begin, end = qualities["loss_first"].value, qualities["loss_last"].value
        most = begin if not images or len(losses) >= ENOUGH else math.inf
        return Verification(
            passed=model.count_params() == parameters(classes) and end < most,  # also False for NaN
            method=f"parameters, and the loss on {data.source}",
            expected=f"{parameters(classes):,} parameters, a mean loss below {most:.3g}",
            found=f"{model.count_params():,} parameters, loss {begin:.3g} to {end:.3g}",
        )

    return experiment(
        strategy,
        model,
        batches,
        data,
        fit=fit,
        evaluate=evaluate,
        verify=verify,
        qualities=CLASSIFIER if images else (),
        item="images",
        confusion=(lambda: confusion_of(*last[0])) if images else None,
        evaluate_training=(lambda: training_quality(*predicted(images.train_sample))) if images else None,
    )


def build(size: int, classes: int) -> Any:
    """Return the network for images (size, size, 3) of bytes."""
    import keras
    from keras import layers

    def convolve(x: Any, filters: int, width: int, stride: int = 1, *, zero: bool = False) -> Any:
        x = layers.Conv2D(
            filters, width, stride, padding="same", use_bias=False, kernel_initializer="he_normal"
        )(x)  # fmt: skip
        return layers.BatchNormalization(
            momentum=0.9, epsilon=1e-5, gamma_initializer="zeros" if zero else "ones"
        )(x)  # fmt: skip

    def block(x: Any, filters: int, stride: int) -> Any:
        inside = layers.ReLU()(convolve(x, filters, 1))
        inside = layers.ReLU()(convolve(inside, filters, 3, stride))
        inside = convolve(inside, 4 * filters, 1, zero=True)  # each block starts as the identity (Goyal et al. 2017)
        if stride > 1 or x.shape[-1] != 4 * filters:
            x = convolve(x, 4 * filters, 1, stride)
        return layers.ReLU()(layers.Add()([x, inside]))

    image = keras.Input((size, size, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(image)
    x = layers.MaxPooling2D(3, 2, padding="same")(layers.ReLU()(convolve(x, 64, 7, 2)))
    for stage, (filters, blocks) in enumerate(STAGES):
        for number in range(blocks):
            x = block(x, filters, stride=2 if stage and not number else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(classes, activation="softmax", dtype="float32")(x))


def parameters(classes: int) -> int:
    """Return the number of parameters: convolutions, four per normalised filter, and the classifier."""

    def convolution(inputs: int, filters: int, width: int) -> int:
        return inputs * filters * width**2 + 4 * filters

    count, inputs = convolution(3, 64, 7), 64
    for filters, blocks in STAGES:
        count += convolution(inputs, 4 * filters, 1)  # the shortcut of a stage's first block
        for _ in range(blocks):
            count += convolution(inputs, filters, 1) + convolution(filters, filters, 3)
            count += convolution(filters, 4 * filters, 1)
            inputs = 4 * filters
    return count + (inputs + 1) * classes
