"""Model FLOPs and memory traffic of a Keras model, counted layer by layer from its shapes.

The convention follows MFU. A multiply-add is two operations. Matrix products and convolutions count; look-ups and
operations with small constant work per activation (bias, activation function, gates, pooling, normalisation, dropout)
do not. Padded taps of a convolution and masked steps of a sequence count as computed. Recomputation does not count.

The traffic is the compulsory traffic of the roofline model (Williams et al., 2009): no tensor stays in a cache from one
layer to the next, and layers without products are fused into their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

PRODUCTS_PER_OUTPUT = {"Dense": 1, "Conv1D": 1, "Conv2D": 1, "Conv3D": 1, "DepthwiseConv1D": 2, "DepthwiseConv2D": 2}
"""Number of trailing axes of a layer's kernel that index the output; an output is a sum over the other axes.

Shapes: Dense (inputs, units); Conv (taps…, channels of one group, filters); DepthwiseConv (taps…, channels,
multiplier).
"""

RECURRENT = frozenset({"SimpleRNN", "GRU", "LSTM"})

WITHOUT_PRODUCTS = frozenset(
    {
        *("InputLayer", "Rescaling", "Embedding", "Masking"),
        *("Activation", "ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax"),
        *("Dropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D"),
        *("BatchNormalization", "LayerNormalization", "RMSNormalization", "GroupNormalization", "UnitNormalization"),
        *("MaxPooling1D", "MaxPooling2D", "AveragePooling1D", "AveragePooling2D"),
        *("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D"),
        *("Flatten", "Reshape", "Permute", "RepeatVector", "ZeroPadding1D", "ZeroPadding2D"),
        *("Cropping1D", "Cropping2D", "UpSampling1D", "UpSampling2D"),
        *("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"),
    }
)
"""Layers without products. A layer neither here nor above is refused: Dot and Attention multiply without weights."""


@dataclass(frozen=True)
class ModelFlops:
    """Model FLOPs of one batch."""

    forward: int
    backward: int

    @property
    def training(self) -> int:
        """Return the FLOPs of a training step without the optimiser (a few FLOPs per parameter)."""
        return self.forward + self.backward


class Count(NamedTuple):
    """Multiply-adds of one example, and the traffic in bytes of activations and their gradients."""

    forward: int = 0
    backward: int = 0
    moved: int = 0

    def plus(self, other: Count) -> Count:
        return Count(*(mine + its for mine, its in zip(self, other, strict=True)))


class Products(NamedTuple):
    """Multiply-adds of a layer for one example: forward, and for the gradients of weights, input and state."""

    forward: int = 0
    weights: int = 0
    input: int = 0
    state: int = 0


def model_flops(model: Any, batch: int) -> ModelFlops:
    """Return the FLOPs of a built sequential or functional Keras model for one batch; each call of a layer counts.

    The backward pass of a layer has two products of the size of its forward product: the gradient of its weights,
    unless they are frozen, and the gradient of its input, if trainable weights come before it (so not for the first
    layer with weights). A custom layer may declare its multiply-adds for one example by a method `products()`.
    Raises TypeError for a layer with an unknown number of products.
    """
    count = _count_model(model)
    return ModelFlops(2 * batch * count.forward, 2 * batch * count.backward)


def model_bytes(model: Any, batch: int) -> int:
    """Return the compulsory memory traffic in bytes of a training step of one batch, for a compiled model.

    Forward, a layer with products reads its input and writes its output. Backward, it reads the gradient of its output,
    reads its input again if its weights are trainable, and writes the gradient of its input if trainable weights come
    before it. Weights are read in both passes. The optimiser reads and writes trainable weights, their gradients and
    its own variables. Internal tensors of a layer, such as the gates of an LSTM, are not counted. Raises TypeError as
    `model_flops`.
    """
    learning, fixed = (
        sum(_bytes(weight) for weight in weights) for weights in (model.trainable_weights, model.non_trainable_weights)
    )
    slots = sum(_bytes(variable) for variable in model.optimizer.variables)
    return batch * _count_model(model).moved + 6 * learning + 2 * fixed + 2 * slots


def _count_model(model: Any) -> Count:
    graph = _graph(model)
    count, _ = _count(graph, [False] * len(graph.inputs))
    return count


def _graph(model: Any) -> Any:
    """Return the functional model of a sequential model; a functional model is returned unchanged."""
    return getattr(model, "_functional", None) or model


def _count(graph: Any, inputs_learn: Sequence[bool]) -> tuple[Count, list[bool]]:
    """Return the counts of one example, and for each output whether trainable weights come before it."""
    total = Count()
    learns = {id(tensor): learned for tensor, learned in zip(graph.inputs, inputs_learn, strict=True)}
    """Whether trainable weights come before this tensor, so that its gradient is needed."""
    # Keras has no public access to the calls of a layer. The outputs have depth 0, so this starts at the inputs.
    nodes = (node for depth in sorted(graph._nodes_by_depth, reverse=True) for node in graph._nodes_by_depth[depth])
    for node in nodes:
        layer = node.operation
        if node.is_input:
            continue
        before = [learns[id(tensor)] for tensor in node.input_tensors]
        if hasattr(_graph(layer), "_nodes_by_depth"):
            inner, after = _count(_graph(layer), before)
            total = total.plus(inner)
        else:
            needs_input, trains = any(before), bool(getattr(layer, "trainable_weights", ()))
            total = total.plus(_call(layer, node, needs_input, trains))
            after = [needs_input or trains] * len(node.output_tensors)
        learns |= {id(tensor): learned for tensor, learned in zip(node.output_tensors, after, strict=True)}
    return total, [learns[id(tensor)] for tensor in graph.outputs]


def _call(layer: Any, call: Any, needs_input: bool, trains: bool) -> Count:
    """Return the counts of one call of a layer, for one example."""
    products = _products(layer, call)
    if not products.forward:
        return Count()
    taken, given = (sum(_size(layer, t.shape) for t in side) for side in (call.input_tensors, call.output_tensors))
    backward, moved = 0, taken + given
    if needs_input or trains:
        backward = products.state + needs_input * products.input + trains * products.weights
        moved += given + (needs_input + trains) * taken
    return Count(products.forward, backward, _element_bytes(layer.compute_dtype) * moved)


def _bytes(variable: Any) -> int:
    return int(math.prod(variable.shape)) * _element_bytes(str(variable.dtype))


def _element_bytes(dtype: str) -> int:
    """Return the size in bytes of an element of `float32`, `bfloat16`, `int64`, `uint8`, …; 1 for `bool`."""
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits else 1


def _products(layer: Any, call: Any) -> Products:
    """Return the multiply-adds of one call of a layer; `call` is a node of Keras's graph."""
    kind = type(layer).__name__
    if kind in WITHOUT_PRODUCTS:
        return Products()
    if hasattr(layer, "products"):
        count = layer.products()
        return Products(forward=count, weights=count, input=count)
    if kind in PRODUCTS_PER_OUTPUT:
        taps = math.prod(layer.kernel.shape[: -PRODUCTS_PER_OUTPUT[kind]])
        count = _size(layer, call.output_tensors[0].shape) * taps  # every position, and a sequence's every step
        return Products(forward=count, weights=count, input=count)
    if kind in RECURRENT:
        return _recurrent(layer, _size(layer, call.input_tensors[0].shape[:2]))
    if kind == "Bidirectional" and type(layer.forward_layer).__name__ in RECURRENT:
        steps = _size(layer, call.input_tensors[0].shape[:2])
        directions = (_recurrent(one, steps) for one in (layer.forward_layer, layer.backward_layer))
        return Products(*(sum(counts) for counts in zip(*directions, strict=True)))
    raise TypeError(
        f"unknown FLOPs of layer {layer.name!r} ({kind}): give the layer a method products() that returns its "
        "multiply-adds for one example"
    )


def _recurrent(layer: Any, steps: int) -> Products:
    """Return the multiply-adds of all gates; kernel shapes: input (inputs, gates·units), state (units, gates·units).

    The initial state is a constant, so the gradient of the state has one step less.
    """
    from_input = math.prod(layer.cell.kernel.shape)
    from_state = math.prod(layer.cell.recurrent_kernel.shape)
    every_step = steps * (from_input + from_state)
    return Products(every_step, weights=every_step, input=steps * from_input, state=(steps - 1) * from_state)


def _size(layer: Any, shape: tuple[int | None, ...]) -> int:
    """Return the number of elements per example: the product of all axes but the batch axis."""
    known = [axis for axis in shape[1:] if axis is not None]
    if len(known) < len(shape) - 1:
        raise TypeError(f"the FLOPs of layer {layer.name!r} depend on the input: give the model's Input a fixed shape")
    return math.prod(known)
