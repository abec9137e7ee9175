"""Model FLOPs and memory traffic of a Keras model, counted layer by layer from its shapes.

The convention of MFU: a multiply-add is two operations, matrix products and convolutions count, and what is a small
number of operations per activation (bias, activation function, gates, pooling, normalisation, dropout) or a look-up
counts nothing. Padded taps of a convolution and masked steps of a sequence count as if they were computed.
Recomputation is not model work and never counts.

The traffic is the compulsory one of the roofline model (Williams et al., 2009): what has to move if no tensor stays in
a cache from one layer to the next, and layers without products are fused into their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

PRODUCTS_PER_OUTPUT = {"Dense": 1, "Conv1D": 1, "Conv2D": 1, "Conv3D": 1, "DepthwiseConv1D": 2, "DepthwiseConv2D": 2}
"""The number of trailing axes of a layer's kernel that tell outputs apart; along the others every output is a sum.

Dense (inputs, units); Conv (taps…, channels of one group, filters); DepthwiseConv (taps…, channels, multiplier).
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
"""The layers without products; any neither here nor above is refused: Dot and Attention multiply without weights."""


@dataclass(frozen=True)
class ModelFlops:
    """The floating-point operations of one batch."""

    forward: int
    backward: int

    @property
    def training(self) -> int:
        """Return the operations of a training step; the optimiser's few per parameter are not counted."""
        return self.forward + self.backward


class Count(NamedTuple):
    """The multiply-adds of one example, and the bytes of activations and their gradients that move."""

    forward: int = 0
    backward: int = 0
    moved: int = 0

    def plus(self, other: Count) -> Count:
        return Count(*(mine + its for mine, its in zip(self, other, strict=True)))


class Products(NamedTuple):
    """The multiply-adds of a layer for one sample: forward, and for the gradients of its weights, input and state."""

    forward: int = 0
    weights: int = 0
    input: int = 0
    state: int = 0


def model_flops(model: Any, batch: int) -> ModelFlops:
    """Count a built sequential or functional Keras model for one batch; a layer called several times counts each time.

    The backward pass of a layer is two products of the forward one's size: the gradient of its weights, unless they are
    frozen, and that of its input, unless nothing before it learns (so the first layer with weights needs none).
    A layer of one's own says by a method `products()` how many multiply-adds it takes for one example.
    TypeError for a layer whose products are not known here.
    """
    count = _count_model(model)
    return ModelFlops(2 * batch * count.forward, 2 * batch * count.backward)


def model_bytes(model: Any, batch: int) -> int:
    """Return the bytes that a training step of one batch must move, of a compiled model of layers known here.

    A layer with products reads its input and writes its output; for its gradients it reads that of its output, reads
    its input again if its weights learn, and writes its input's gradient if anything before it learns. Weights are read
    forward and backward, those that learn are read and written by the optimiser with their gradients and its own
    variables. What a layer keeps for itself, as the gates of an LSTM, is not counted. TypeError as `model_flops`.
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
    """Return the functional model that a sequential one keeps inside; a functional one itself."""
    return getattr(model, "_functional", None) or model


def _count(graph: Any, inputs_learn: Sequence[bool]) -> tuple[Count, list[bool]]:
    """Return what one example takes, and for each output whether trainable weights lie before it."""
    total = Count()
    learns = {id(tensor): learned for tensor, learned in zip(graph.inputs, inputs_learn, strict=True)}
    """Whether trainable weights lie before this tensor: then the backward pass has to reach it."""
    # Keras has no public way to a layer's single calls. From the inputs on: the outputs have depth 0.
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
    """Count a layer's call, given whether its input's gradient is needed and whether it has weights that learn."""
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
    """Return the bytes of an element of `float32`, `bfloat16`, `int64`, `uint8`, …; a truth value takes one."""
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits else 1


def _products(layer: Any, call: Any) -> Products:
    """Count the multiply-adds of a layer's call: a node of Keras's graph with the tensors that go in and come out."""
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
        f"the FLOPs of layer {layer.name!r} ({kind}) are not known to accelbench.profiling.measure.flop_counts.layers"
    )


def _recurrent(layer: Any, steps: int) -> Products:
    """Count all gates, in a kernel for the input, (inputs, gates·units), and one for the state, (units, gates·units).

    The state before the first step is a constant, so its gradient is not needed: one step less.
    """
    from_input = math.prod(layer.cell.kernel.shape)
    from_state = math.prod(layer.cell.recurrent_kernel.shape)
    every_step = steps * (from_input + from_state)
    return Products(every_step, weights=every_step, input=steps * from_input, state=(steps - 1) * from_state)


def _size(layer: Any, shape: tuple[int | None, ...]) -> int:
    """Return the elements per sample: the product of all axes but the batch."""
    known = [axis for axis in shape[1:] if axis is not None]
    if len(known) < len(shape) - 1:
        raise TypeError(f"the FLOPs of layer {layer.name!r} depend on its input: give the model's Input a fixed shape")
    return math.prod(known)
