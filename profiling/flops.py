"""Model FLOPs of a Keras model, counted layer by layer from its shapes.

The convention of MFU: a multiply-add is two operations, matrix products and convolutions count, and what is a small
number of operations per activation (bias, activation function, pooling, normalisation, dropout) counts nothing.
Padded taps of a convolution count as if they were computed. Recomputation is not model work and never counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelFlops:
    """Operations for one batch."""

    forward: int
    backward: int

    @property
    def training(self) -> int:
        """One training step; the optimiser's few operations per parameter are not counted."""
        return self.forward + self.backward


def model_flops(model: Any, batch: int) -> ModelFlops:
    """Count a built sequential Keras model for one batch.

    The backward pass of a layer is two products of the forward one's size, the gradient of its weights and that of
    its input; the first layer that has weights needs no gradient of its input. TypeError for a layer with weights whose
    count is not known here.
    """
    products = [count for count in (_multiply_adds(layer) for layer in model.layers) if count]
    forward = 2 * batch * sum(products)
    return ModelFlops(forward, backward=2 * forward - 2 * batch * products[0])


def _multiply_adds(layer: Any) -> int:
    """Multiply-adds of one layer's forward pass for one sample."""
    kind = type(layer).__name__
    if kind == "Dense":
        positions = int(math.prod(layer.output.shape[1:-1]))  # a Dense on a sequence runs at every position
        return positions * int(math.prod(layer.kernel.shape))
    if kind in ("Conv1D", "Conv2D", "Conv3D"):
        if layer.data_format != "channels_last":
            raise TypeError(f"the FLOPs of {layer.name} are counted for channels_last only")
        # The kernel is (taps…, input channels of a group, filters), applied at every output position.
        return int(math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape))
    if kind in ("BatchNormalization", "LayerNormalization", "Embedding"):
        return 0
    if layer.weights:
        raise TypeError(f"the FLOPs of layer {layer.name!r} ({kind}) are not known to profiling.flops")
    return 0
