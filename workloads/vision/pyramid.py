"""The backbone and the feature pyramid on it.

K. He et al., "Deep Residual Learning", CVPR 2016; T.-Y. Lin et al., "Feature Pyramid Networks for Object Detection",
CVPR 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from accelbench.profiling.benchmark import Skip

STAGES = ("conv2_block3_out", "conv3_block4_out", "conv4_block6_out", "conv5_block3_out")
"""The last layers of strides 4, 8, 16 and 32 in Keras's ResNet-50."""
COARSEST, SMALLEST = 32, 64
GROUPS = 32
"""The number of groups of channels, each normalised by itself (Wu & He 2018)."""


def require_size(image: int) -> None:
    """Skip an image that the pyramid cannot halve five times and add up again, or in which nothing is left to see."""
    if image < SMALLEST or image % COARSEST:
        raise Skip(
            f"the backbone halves an image five times: its side must be a multiple of {COARSEST} "
            f"and at least {SMALLEST} pixels, and {image} is not"
        )


def resnet50(image: Any) -> list[Any]:
    """Return features of strides 4, 8, 16 and 32 of an image of bytes; no weights are downloaded, all are random."""
    size = image.shape[1]
    network = normalised(keras.applications.ResNet50(include_top=False, weights=None, input_shape=(size, size, 3)))
    features = keras.Model(network.input, [network.get_layer(name).output for name in STAGES], name="resnet50")
    return list(features(layers.Rescaling(1 / 127.5, offset=-1)(image)))


def normalised(network: Any) -> Any:
    """Return the network with group in place of batch normalisation: it trains alike however small the batch is.

    A detector's batches are small, and without pre-trained weights there are no averages to freeze instead. Y. Wu and
    K. He, "Group Normalization", ECCV 2018; K. He, R. Girshick and P. Dollár, "Rethinking ImageNet Pre-training", ICCV
    2019, which trains detectors from random weights so. The last normalisation of a block begins with the scale 0, so
    that the block begins as its shortcut and the network as a shallow one (Goyal et al. 2017).
    """

    def replace(layer: Any) -> Any:
        if isinstance(layer, layers.BatchNormalization):
            last = layer.name.endswith("_3_bn")
            scale = keras.initializers.Constant(0.0 if last else 1.0)
            return layers.GroupNormalization(GROUPS, epsilon=layer.epsilon, gamma_initializer=scale, name=layer.name)
        return type(layer).from_config(layer.get_config())

    # Batch normalisation's calls have an argument `mask`, which its successor does not take.
    return keras.models.clone_model(
        network, clone_function=replace, call_function=lambda layer, *inputs, **_: layer(*inputs)
    )


def feature_pyramid(features: Sequence[Any], channels: int) -> list[Any]:
    """Return levels of the features' strides, fine to coarse, each with the meaning of the coarsest."""
    *finer, coarsest = features
    level = layers.Conv2D(channels, 1, name=f"lateral{len(features)}")(coarsest)
    merged = [level]
    for number, feature in reversed(list(enumerate(finer, start=1))):
        lateral = layers.Conv2D(channels, 1, name=f"lateral{number}")(feature)
        level = layers.Add()([lateral, layers.UpSampling2D(2)(level)])
        merged.insert(0, level)
    return [layers.Conv2D(channels, 3, padding="same", name=f"level{i}")(x) for i, x in enumerate(merged, start=1)]


def over_levels(stack: Sequence[Any], levels: Sequence[Any], width: int) -> Any:
    """Return the outputs of a stack of layers at each anchor of all levels, fine to coarse: (B, anchors, width)."""
    flat = []
    for level in levels:
        for layer in stack:
            level = layer(level)
        flat.append(layers.Reshape((-1, width))(level))
    return layers.Concatenate(axis=1, dtype="float32")(flat)
