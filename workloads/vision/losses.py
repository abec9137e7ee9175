"""The losses of detectors, of each element, in float32."""

from __future__ import annotations

from typing import Any

from keras import ops

ALPHA, GAMMA = 0.25, 2.0
"""The share of the positive side in the focal loss, and how fast easy examples fade (Lin et al. 2017, table 1b)."""
BETA = 1 / 9
"""The distance at which the smooth L1 loss turns from square to linear (Detectron)."""


def focal(logits: Any, targets: Any) -> Any:
    """Return the focal loss of logits against targets of 0 and 1, −α (1 − p)^γ log p with p of what is true.

    T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár, "Focal Loss for Dense Object Detection", ICCV 2017.
    """
    sign = 2 * targets - 1
    share = targets * ALPHA + (1 - targets) * (1 - ALPHA)
    return share * ops.sigmoid(-sign * logits) ** GAMMA * ops.softplus(-sign * logits)


def binary_cross_entropy(logits: Any, targets: Any) -> Any:
    """Return −log p of what is true, for targets from 0 to 1."""
    return ops.softplus(logits) - targets * logits


def smooth_l1(predicted: Any, target: Any) -> Any:
    """Return the loss summed over the last axis: half the square below `BETA`, the distance less β/2 above."""
    distance = ops.abs(predicted - target)
    return ops.sum(ops.where(distance < BETA, 0.5 * distance**2 / BETA, distance - 0.5 * BETA), axis=-1)


def mean_where(mask: Any, losses: Any) -> Any:
    """Return the mean of the losses where the mask is true; 0 where it is nowhere."""
    mask = ops.cast(mask, "float32")
    return ops.sum(mask * losses) / ops.maximum(ops.sum(mask), 1.0)
