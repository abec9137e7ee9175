"""Assignment of true objects to anchors or regions."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from accelbench.workloads.vision.boxes import iou


class Match(NamedTuple):
    """Assigned objects of N candidates on B images; candidates without either label are left out of the loss."""

    truth: Any
    """Index (B, N) of the object with the largest overlap."""
    positive: Any
    """Whether the candidate must predict that object, (B, N)."""
    negative: Any
    """Whether the candidate must predict background, (B, N)."""


def match(candidates: Any, truth: Any, *, positive: float, negative: float, rescue: bool = False) -> Match:
    """Match candidates (N, 4) or (B, N, 4) that overlap objects by at least `positive`, or by less than `negative`.

    `truth` (B, M, 4) are the images' objects; padding rows are empty boxes and match nothing. With `rescue` the
    candidates with the largest overlap with an object are always positive for it, so that each object contributes to
    the loss (Ren et al., "Faster R-CNN", 2015, section 3.1.2).
    """
    overlap = iou(candidates, truth)  # (B, N, M)
    best = ops.max(overlap, axis=-1)
    found = ops.argmax(overlap, axis=-1)
    is_positive = best >= positive
    if rescue:
        most = ops.maximum(ops.max(overlap, axis=-2, keepdims=True), 1e-6)
        rescued = overlap >= most
        found = ops.where(ops.any(rescued, axis=-1), ops.argmax(ops.where(rescued, overlap, -1.0), axis=-1), found)
        is_positive = ops.logical_or(is_positive, ops.any(rescued, axis=-1))
    is_negative = ops.logical_and(best < negative, ops.logical_not(is_positive))
    return Match(found, is_positive, is_negative)


def rows(values: Any, index: Any) -> Any:
    """Return the rows (B, N, …) of `values` (B, M, …) at `index` (B, N)."""
    for _ in range(len(values.shape) - 2):
        index = ops.expand_dims(index, -1)
    return ops.take_along_axis(values, index, axis=1)
