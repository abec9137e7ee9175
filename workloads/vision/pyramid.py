"""Backbone and feature pyramid.

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
"""Last layers of strides 4, 8, 16 and 32 in Keras's ResNet-50."""
COARSEST, SMALLEST = 32, 64
GROUPS = 32
"""Number of channel groups of group normalisation (Wu & He 2018)."""


def require_size(image: int) -> None:
    """Skip an image size that is not divisible by the pyramid's strides, or too small."""
    if image < SMALLEST or image % COARSEST:
        raise Skip(
            f"the backbone halves an image five times: image must be a multiple of {COARSEST} "
            f"and at least {SMALLEST}, not {image}"
        )


def resnet50(image: Any) -> list[Any]:
    """Return features of strides 4, 8, 16 and 32 of an image of bytes; weights are random."""
    size = image.shape[1]
    network = normalised(keras.applications.ResNet50(include_top=False, weights=None, input_shape=(size, size, 3)))
    features = keras.Model(network.input, [network.get_layer(name).output for name in STAGES], name="resnet50")
    return list(features(layers.Rescaling(1 / 127.5, offset=-1)(image)))


def normalised(network: Any) -> Any:
    """Return the network with group normalisation instead of batch normalisation, which small batches degrade.

    Detectors have small batches, and without pre-trained weights there are no statistics to freeze. Y. Wu and K. He,
    "Group Normalization", ECCV 2018; K. He, R. Girshick and P. Dollár, "Rethinking ImageNet Pre-training", ICCV 2019,
    trains detectors from random weights in this way. The last normalisation of a block starts with scale 0, so that the
    block starts as its shortcut and the network as a shallow one (Goyal et al. 2017).
    """

    def replace(layer: Any) -> Any:
        if isinstance(layer, layers.BatchNormalization):
            last = layer.name.endswith("_3_bn")
            scale = keras.initializers.Constant(0.0 if last else 1.0)
            return layers.GroupNormalization(GROUPS, epsilon=layer.epsilon, gamma_initializer=scale, name=layer.name)
        return type(layer).from_config(layer.get_config())

    # Calls of batch normalisation have the argument `mask`, which group normalisation does not accept.
    return keras.models.clone_model(
        network, clone_function=replace, call_function=lambda layer, *inputs, **_: layer(*inputs)
    )


def feature_pyramid(features: Sequence[Any], channels: int) -> list[Any]:
    """Return levels with the features' strides, fine to coarse; each also contains the coarser levels' information."""
    *finer, coarsest = features
    level = layers.Conv2D(channels, 1, name=f"lateral{len(features)}")(coarsest)
    merged = [level]
    for number, feature in reversed(list(enumerate(finer, start=1))):
        lateral = layers.Conv2D(channels, 1, name=f"lateral{number}")(feature)
        level = layers.Add()([lateral, layers.UpSampling2D(2)(level)])
        merged.insert(0, level)
    return [layers.Conv2D(channels, 3, padding="same", name=f"level{i}")(x) for i, x in enumerate(merged, start=1)]


def over_levels(stack: Sequence[Any], levels: Sequence[Any], width: int) -> Any:
    """Return the outputs of a stack of layers for the anchors of all levels, fine to coarse: (B, anchors, width)."""
    flat = []
    for level in levels:
        for layer in stack:
            level = layer(level)
        flat.append(layers.Reshape((-1, width))(level))
    return layers.Concatenate(axis=1, dtype="float32")(flat)
