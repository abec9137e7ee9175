"""ParaDnn: parameterised families of networks on synthetic data, from small to very large.

Y. E. Wang, G.-Y. Wei and D. Brooks, "Benchmarking TPU, GPU, and CPU Platforms for Deep Learning", arXiv:1907.10701
(2019). Unspecified settings follow the authors' code, with two exceptions: labels depend on the inputs instead of being
random, so that wrong arithmetic lowers the accuracy; and the learning rate is lower, because the authors' RMSProp steps
of 0.1 diverge with such labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data, Metric, Verification
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import by_device, training

STEPS, EPOCHS = 20, 3
"""Batches per epoch, for any batch size; minimum number of epochs for a check of the accuracy."""
HELD_OUT = 256
KINDS = 10
"""Number of outputs that occur as labels."""
LIMITS = {"outputs": (100, 16384), "batch": (16, 16384), "epochs": (EPOCHS, 1000)}
ACCURACY = 0.5
"""Minimum held-out accuracy after 60 steps of a shallow network; chance is 0.1. Measured: 0.89 to 1 with up to 8 fully
connected layers of 32 to 2,048 nodes, 0.91 to 1 with 1 to 8 blocks per group and 8 or 16 filters, 0.66 to 0.92 with one
recurrent layer of 32 to 900 units. Deeper networks need more steps."""
LEARNT_LENGTH = 50
"""Minimum sequence length for the recurrent layer's accuracy floor: 60 steps of shorter sequences see fewer words."""
LOSS_SHARE = 0.7
"""Maximum loss of the last epoch as a share of ln(outputs), the loss of a uniform prediction. After 60 steps the
deepest networks have learnt only the label frequencies; they reach 0.44 with 128 fully connected layers and 0.34 with
13 recurrent ones."""


@training(
    "paradnn-fc",
    axes={
        "layers": (4,),
        "nodes": by_device(256, 4096),
        "inputs": (2000,),
        "outputs": (1000,),
        "batch": by_device(64, 1024),
        "epochs": (EPOCHS,),
    },
    limits={"layers": (1, 128), "nodes": (32, 8192), "inputs": (2000, 16384), **LIMITS},
    time_limit_s=3600,
)
def paradnn_fc(point: Point, strategy: Strategy) -> Training:
    """Train fully connected layers of equal width on synthetic clusters.

    The paper's ranges: 4 to 128 layers of 32 to 8,192 nodes, 2,000 to 8,000 inputs, 200 to 1,000 outputs, batches of
    64 to 16,384.
    """
    import keras
    import numpy as np
    from keras import layers

    from accelbench.profiling.machine.free_memory import require_memory

    depth, nodes, inputs, outputs = (point[axis] for axis in ("layers", "nodes", "inputs", "outputs"))
    weights = fc_parameters(depth, nodes, inputs, outputs)
    if point.device == "cpu":
        # Each weight with its gradient and mean square; each activation with its gradient; and three copies of the
        # examples, during generation and in the feed.
        activations = point["batch"] * (depth * nodes + 2 * outputs)
        require_memory(4 * (3 * weights + 2 * activations + 3 * STEPS * point["batch"] * inputs))

    draw = point.rng()
    labels = draw.integers(KINDS, size=STEPS * point["batch"] + HELD_OUT)
    # Each class is a cluster around its own centre.
    x = draw.standard_normal((len(labels), inputs), np.float32)
    x += draw.standard_normal((KINDS, inputs), np.float32)[labels]
    x *= np.float32(math.sqrt(0.5))

    model = keras.Sequential([keras.Input((inputs,))])
    for _ in range(depth):
        # He initialisation: Keras's default halves the signal in every layer, so that it vanishes after 128.
        model.add(layers.Dense(nodes, activation="relu", kernel_initializer="he_uniform"))
    model.add(layers.Dense(outputs, activation="softmax", dtype="float32"))
    floor = ACCURACY if depth <= 8 else 0.0
    return synthetic(strategy, model, x, labels, weights, floor, rate=3e-4 * min(1, 2048 / nodes), item="examples")


def fc_parameters(depth: int, nodes: int, inputs: int, outputs: int) -> int:
    """Return the number of weights between neighbouring layers, plus one bias per node."""
    return (inputs + 1) * nodes + (depth - 1) * (nodes + 1) * nodes + (nodes + 1) * outputs


@training(
    "paradnn-cnn",
    axes={
        "block": ("residual",),
        "blocks": (1,),
        "filters": by_device(16, 64),
        "image": by_device(64, 200),
        "outputs": (500,),
        "batch": by_device(64, 256),
        "epochs": (EPOCHS,),
    },
    choices={"block": ("residual", "bottleneck")},
    limits={"blocks": (1, 8), "filters": (8, 128), "image": (32, 512), **LIMITS},
    time_limit_s=3600,
)
def paradnn_cnn(point: Point, strategy: Strategy) -> Training:
    """Train a residual network with four groups of blocks on synthetic images.

    The paper's ranges: residual or bottleneck blocks, 1 to 8 per group, 16 to 64 filters in the first group, images of
    200×200 to 300×300 pixels, 500 to 1,500 outputs, batches of 64 to 1,024.
    """
    import keras
    import numpy as np
    from keras import layers

    from accelbench.profiling.machine.free_memory import require_memory

    filters, image, count = point["filters"], point["image"], STEPS * point["batch"] + HELD_OUT
    if point.device == "cpu":
        require_memory(2 * count * image * image * 3)
    draw = point.rng()
    labels = draw.integers(KINDS, size=count)
    # Each class is a pattern of 8 × 8 coloured squares; each image adds its own noise.
    squares = draw.integers(64, 192, size=(KINDS, 8, 8, 3), dtype=np.uint8)
    across = np.arange(image) * 8 // image
    x = draw.integers(64, size=(count, image, image, 3), dtype=np.uint8)
    for kind, pattern in enumerate(squares):
        x[labels == kind] += pattern[across][:, across]

    def convolution(signal: Any, filters: int, kernel: int, stride: int = 1, gamma: str = "ones") -> Any:
        signal = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False)(signal)
        return layers.BatchNormalization(momentum=0.9, gamma_initializer=gamma)(signal)

    def block(signal: Any, width: int, stride: int, project: bool) -> Any:
        bottleneck = point["block"] == "bottleneck"
        wide = 4 * width if bottleneck else width
        shortcut = convolution(signal, wide, 1, stride) if project else signal
        if bottleneck:
            signal = layers.ReLU()(convolution(signal, width, 1))
        signal = layers.ReLU()(convolution(signal, width, 3, stride))
        # With a scale of 0 each block starts as its shortcut, which keeps deep stacks trainable.
        signal = convolution(signal, wide, 1 if bottleneck else 3, gamma="zeros")
        return layers.ReLU()(layers.Add()([signal, shortcut]))

    images = keras.Input((image, image, 3), dtype="uint8")
    signal = layers.ReLU()(convolution(layers.Rescaling(1 / 128, offset=-1)(images), filters, 7, 2))
    signal = layers.MaxPooling2D(3, 2, padding="same")(signal)
    for group in range(4):
        for number in range(point["blocks"]):
            signal = block(signal, filters << group, 2 if group and not number else 1, project=not number)
    signal = layers.GlobalAveragePooling2D()(signal)
    model = keras.Model(images, layers.Dense(point["outputs"], activation="softmax", dtype="float32")(signal))
    if point.device == "cpu":
        # Values and gradients in float32, and the same again as scratch space of the convolutions.
        activations = sum(math.prod(layer.output.shape[1:]) for layer in model.layers)
        require_memory(2 * count * image * image * 3 + 16 * point["batch"] * activations)
    weights = cnn_parameters(point["block"], point["blocks"], filters, point["outputs"])
    return synthetic(strategy, model, x, labels, weights, floor=ACCURACY, rate=1e-3, item="images")


def cnn_parameters(block: str, blocks: int, filters: int, outputs: int) -> int:
    """Return the number of parameters of a residual network.

    Convolutions have no bias; batch normalisation has four parameters per channel, two of them trainable.

    The first convolution is 7 × 7 on three colour channels. Blocks of group g = 0…3 have w = 2^g·filters filters; the
    first block of a group has a 1 × 1 projection shortcut to its output channels. A residual block has two 3 × 3
    convolutions and w output channels; a bottleneck block has convolutions of 1 × 1, 3 × 3 and 1 × 1, and 4w output
    channels.
    """
    total, channels = 7 * 7 * 3 * filters + 4 * filters, filters
    for width in (filters << group for group in range(4)):
        wide = 4 * width if block == "bottleneck" else width
        total += channels * wide + 4 * wide
        for _ in range(blocks):
            if block == "bottleneck":
                total += channels * width + 9 * width * width + width * wide + 4 * (2 * width + wide)
            else:
                total += 9 * channels * width + 9 * width * width + 4 * 2 * width
            channels = wide
    return total + (channels + 1) * outputs


@training(
    "paradnn-rnn",
    axes={
        "cell": ("lstm",),
        "layers": by_device(1, 5),
        "units": by_device(100, 500),
        "length": (50,),
        "vocabulary": (1024,),
        "batch": by_device(64, 256),
        "epochs": (EPOCHS,),
    },
    choices={"cell": ("rnn", "lstm", "gru")},
    limits={
        "layers": (1, 13),
        "units": (32, 4096),
        "length": (2, 1024),
        "vocabulary": LIMITS["outputs"],
        "batch": LIMITS["batch"],
        "epochs": LIMITS["epochs"],
    },
    time_limit_s=3600,
)
def paradnn_rnn(point: Point, strategy: Strategy) -> Training:
    """Train stacked recurrent layers on next-word prediction in synthetic sequences.

    The paper's ranges: 1 to 13 layers of 100 to 900 units, which is also the embedding size, sequences of 10 to 90
    words from vocabularies of up to 1,024, batches of 16 to 1,024.
    """
    import keras
    from keras import layers

    from accelbench.profiling.machine.free_memory import require_memory
    from accelbench.workloads.training.keras_model import embedding

    depth, units, length, vocabulary = (point[axis] for axis in ("layers", "units", "length", "vocabulary"))
    weights = rnn_parameters(point["cell"], depth, units, vocabulary)
    if point.device == "cpu":
        # As for the fully connected layers; a recurrent step stores up to ten numbers per unit, and each word has
        # scores for the whole vocabulary.
        activations = point["batch"] * length * (10 * depth * units + 2 * vocabulary)
        require_memory(4 * (3 * weights + 2 * activations))

    draw = point.rng()
    follows = draw.permutation(KINDS)
    words = draw.integers(KINDS, size=(STEPS * point["batch"] + HELD_OUT, length + 1))
    # Each word determines the next with probability 0.9; otherwise the next word is random.
    ruled = draw.random(words.shape) < 0.9
    for place in range(1, length + 1):
        words[ruled[:, place], place] = follows[words[ruled[:, place], place - 1]]

    cell = {"rnn": layers.SimpleRNN, "lstm": layers.LSTM, "gru": layers.GRU}[point["cell"]]
    model = keras.Sequential([keras.Input((length,), dtype="int32")])
    # Keras's default initial embeddings are twenty times smaller and need that many more steps.
    model.add(embedding(vocabulary, units, embeddings_initializer=keras.initializers.RandomUniform(-1, 1)))
    for _ in range(depth):
        model.add(cell(units, return_sequences=True))
    model.add(layers.Dense(vocabulary, activation="softmax", dtype="float32"))
    x, following = words[:, :-1].astype("int32"), words[:, 1:]
    floor = ACCURACY if depth == 1 and length >= LEARNT_LENGTH else 0.0
    return synthetic(strategy, model, x, following, weights, floor, rate=3e-3 * min(1, 1000 / units), item="words")


def rnn_parameters(cell: str, depth: int, units: int, vocabulary: int) -> int:
    """Return the number of parameters in the embedding, the recurrent layers and the output.

    A gate has a weight per input and per recurrent unit, and a bias, for each unit; Keras's GRU has two biases, one on
    each side of its reset gate.
    """
    gates, biases = {"rnn": (1, 1), "lstm": (4, 1), "gru": (3, 2)}[cell]
    return vocabulary * units + depth * gates * units * (2 * units + biases) + (units + 1) * vocabulary


def synthetic(
    strategy: Strategy, model: Any, x: Any, labels: Any, parameters: int, floor: float, rate: float, item: str
) -> Training:
    """Return training by RMSProp on all but the last `HELD_OUT` examples; work is counted in `item`, one per label."""
    import keras

    from accelbench.workloads.training.experiment import classifier
    from accelbench.workloads.training.keras_model import jit_compile

    model.compile(
        keras.optimizers.RMSprop(rate),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=jit_compile(strategy.point),
    )
    plain = classifier(
        strategy,
        model,
        strategy.feed((x[:-HELD_OUT], labels[:-HELD_OUT])),
        Data(f"synthetic: {item} of {KINDS} kinds", train=len(x) - HELD_OUT, held_out=HELD_OUT, synthetic=True),
        (x[-HELD_OUT:], labels[-HELD_OUT:]),
        parameters=parameters,
        floors=((0, floor),),
        item=item,
        items_each=math.prod(labels.shape[1:]),
        trained_on=(x[:-HELD_OUT], labels[:-HELD_OUT]),
    )
    most = LOSS_SHARE * math.log(model.outputs[0].shape[-1])

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        """Check the classifier, and that the last epoch's loss is clearly below that of a uniform prediction."""
        found = plain.verify(history, qualities)
        return replace(
            found,
            passed=found.passed and history["loss"][-1] <= most,  # also False for NaN
            expected=f"loss of the last epoch ≤ {most:.3g}, {found.expected}",
        )

    return replace(plain, verify=verify, enough_epochs=EPOCHS)
