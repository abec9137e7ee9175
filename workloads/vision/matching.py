"""The true object that each anchor or region has to find, if it has one."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from accelbench.workloads.vision.boxes import iou


class Match(NamedTuple):
    """The object of each of N candidates on B images; those neither positive nor negative take no part in the loss."""

    truth: Any
    """The row (B, N) of the object with which the candidate overlaps most."""
    positive: Any
    """Whether the candidate has to find that object, (B, N)."""
    negative: Any
    """Whether there is nothing that the candidate has to find, (B, N)."""


def match(candidates: Any, truth: Any, *, positive: float, negative: float, rescue: bool = False) -> Match:
    """Match candidates (N, 4) or (B, N, 4): overlaps of at least `positive`, and those of less than `negative`.

    `truth` (B, M, 4) are the images' objects; rows that only fill up are empty boxes and match nothing. With `rescue`
    the candidates that overlap most with an object are positive for it however little that is, so that each object is
    learned (Ren et al., "Faster R-CNN", 2015, section 3.1.2).
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
