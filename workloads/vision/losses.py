"""Element-wise losses of detectors, in float32."""

from __future__ import annotations

from typing import Any

from keras import ops

ALPHA, GAMMA = 0.25, 2.0
"""Weight of positive targets in the focal loss, and its focusing parameter (Lin et al. 2017, table 1b)."""
BETA = 1 / 9
"""Distance at which the smooth L1 loss changes from quadratic to linear (Detectron)."""


def focal(logits: Any, targets: Any) -> Any:
    """Return the focal loss −α (1 − p)^γ log p, with p the probability of the target, for targets 0 and 1.

    T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense Object Detection", ICCV 2017.
    """
    sign = 2 * targets - 1
    share = targets * ALPHA + (1 - targets) * (1 - ALPHA)
    return share * ops.sigmoid(-sign * logits) ** GAMMA * ops.softplus(-sign * logits)


def binary_cross_entropy(logits: Any, targets: Any) -> Any:
    """Return the binary cross-entropy for targets from 0 to 1."""
    return ops.softplus(logits) - targets * logits


def smooth_l1(predicted: Any, target: Any) -> Any:
    """Return the loss summed over the last axis: quadratic below `BETA`, distance minus β/2 above."""
    distance = ops.abs(predicted - target)
    return ops.sum(ops.where(distance < BETA, 0.5 * distance**2 / BETA, distance - 0.5 * BETA), axis=-1)


def mean_where(mask: Any, losses: Any) -> Any:
    """Return the mean of the losses where the mask is true; 0 if it is false everywhere."""
    mask = ops.cast(mask, "float32")
    return ops.sum(mask * losses) / ops.maximum(ops.sum(mask), 1.0)
