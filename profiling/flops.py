"""Model FLOPs of a Keras model, counted layer by layer from its shapes.

The convention of MFU: a multiply-add is two operations, matrix products and convolutions count, and what is a small
number of operations per activation (bias, activation function, gates, pooling, normalisation, dropout) or a look-up
counts nothing. Padded taps of a convolution and masked steps of a sequence count as if they were computed.
Recomputation is not model work and never counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

PRODUCTS_PER_OUTPUT = {"Dense": 1, "Conv1D": 1, "Conv2D": 1, "Conv3D": 1, "DepthwiseConv1D": 2, "DepthwiseConv2D": 2}
"""How many trailing axes of the layer's kernel tell outputs apart; along the others every output is a sum.

Dense (inputs, units); Conv (taps…, channels of one group, filters); DepthwiseConv (taps…, channels, multiplier).
"""

RECURRENT = frozenset({"SimpleRNN", "GRU", "LSTM"})

WITHOUT_PRODUCTS = frozenset(
    {
        *("InputLayer", "Rescaling", "Embedding", "Masking"),
        *("Activation", "ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax"),
        *("Dropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D"),
        *("BatchNormalization", "LayerNormalization", "GroupNormalization", "UnitNormalization"),
        *("MaxPooling1D", "MaxPooling2D", "AveragePooling1D", "AveragePooling2D"),
        *("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D"),
        *("Flatten", "Reshape", "Permute", "RepeatVector", "ZeroPadding1D", "ZeroPadding2D"),
        *("Cropping1D", "Cropping2D", "UpSampling1D", "UpSampling2D"),
        *("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"),
    }
)
"""Whatever is neither here nor above is refused, weights or not: Dot and Attention multiply matrices without any."""


@dataclass(frozen=True)
class ModelFlops:
    """Operations for one batch."""

    forward: int
    backward: int

    @property
    def training(self) -> int:
        """One training step; the optimiser's few operations per parameter are not counted."""
        return self.forward + self.backward


class Products(NamedTuple):
    """Multiply-adds of one layer for one sample: forward, and for the gradients of its weights, input and state."""

    forward: int = 0
    weights: int = 0
    input: int = 0
    state: int = 0


def model_flops(model: Any, batch: int) -> ModelFlops:
    """Count a built sequential or functional Keras model for one batch.

    The backward pass of a layer is two products of the forward one's size: the gradient of its weights, unless they are
    frozen, and that of its input, unless nothing before it learns (so the first layer with weights needs none).
    TypeError for a layer whose products are not known here, and for one that is called more than once.
    """
    from keras import tree

    forward = backward = 0
    learns = {id(tensor): False for tensor in tree.flatten(model.inputs)}
    """Whether trainable weights lie before this tensor: then the backward pass has to reach it."""
    for layer in model.layers:
        products = _products(layer)
        forward += products.forward
        inputs = [id(tensor) for tensor in tree.flatten(layer.input)]
        if not all(tensor in learns for tensor in inputs):
            raise TypeError(
                f"the FLOPs of {layer.name!r} are not known: its input comes from a shared layer or a bare op"
            )
        needs_input, trains = any(learns[tensor] for tensor in inputs), bool(layer.trainable_weights)
        if needs_input or trains:
            backward += products.state + needs_input * products.input + trains * products.weights
        learns |= {id(tensor): needs_input or trains for tensor in tree.flatten(layer.output)}
    if not all(id(tensor) in learns for tensor in tree.flatten(model.outputs)):
        raise TypeError(f"the FLOPs of {model.name!r} are not known: its output comes from a shared layer or a bare op")
    return ModelFlops(2 * batch * forward, 2 * batch * backward)


def _products(layer: Any) -> Products:
    kind = type(layer).__name__
    if kind in WITHOUT_PRODUCTS:
        return Products()
    if kind in PRODUCTS_PER_OUTPUT:
        taps = math.prod(layer.kernel.shape[: -PRODUCTS_PER_OUTPUT[kind]])
        count = _size(layer, layer.output.shape) * taps  # every position of the output, and a sequence's every step
        return Products(forward=count, weights=count, input=count)
    if kind in RECURRENT:
        return _recurrent(layer, _size(layer, layer.input.shape[:2]))
    if kind == "Bidirectional" and type(layer.forward_layer).__name__ in RECURRENT:
        steps = _size(layer, layer.input.shape[:2])
        directions = (_recurrent(one, steps) for one in (layer.forward_layer, layer.backward_layer))
        return Products(*(sum(counts) for counts in zip(*directions, strict=True)))
    raise TypeError(f"the FLOPs of layer {layer.name!r} ({kind}) are not known to profiling.flops")


def _recurrent(layer: Any, steps: int) -> Products:
    """All gates in one kernel for the input, (inputs, gates·units), and one for the state, (units, gates·units).

    The state before the first step is a constant, so its gradient is not needed: one step less.
    """
    from_input = math.prod(layer.cell.kernel.shape)
    from_state = math.prod(layer.cell.recurrent_kernel.shape)
    every_step = steps * (from_input + from_state)
    return Products(every_step, weights=every_step, input=steps * from_input, state=(steps - 1) * from_state)


def _size(layer: Any, shape: tuple[int | None, ...]) -> int:
    """Elements per sample: the product of all axes but the batch."""
    known = [axis for axis in shape[1:] if axis is not None]
    if len(known) < len(shape) - 1:
        raise TypeError(f"the FLOPs of layer {layer.name!r} depend on its input: give the model's Input a fixed shape")
    return math.prod(known)
