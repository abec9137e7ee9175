"""Greedy non-maximum suppression with a fixed number of steps, which compiles to fixed shapes."""

from __future__ import annotations

from typing import Any

from keras import ops

from accelbench.workloads.vision.boxes import iou


def non_maximum_suppression(
    boxes: Any, scores: Any, *, threshold: float, count: int, groups: Any = None
) -> tuple[Any, Any]:
    """Select the `count` boxes of (B, N, 4) with the highest scores, of which no two overlap by more than `threshold`.

    `scores` (B, N) must not be negative; boxes of different `groups` (B, N), if given, do not suppress each other.
    Returns indices (B, count) and scores (B, count) in descending order, padded with index 0 and score 0. Each step
    selects the best box and removes the boxes that it suppresses.
    """
    batch, places = ops.shape(boxes)[0], ops.arange(count)
    boxes, scores = ops.stop_gradient(boxes), ops.stop_gradient(scores)

    def step(i: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        left, chosen, kept = state
        best = ops.argmax(left, axis=-1, keepdims=True)  # (B, 1)
        score = ops.take_along_axis(left, best, axis=1)
        suppressed = iou(ops.take_along_axis(boxes, ops.expand_dims(best, -1), axis=1), boxes)[:, 0] > threshold
        if groups is not None:
            suppressed = ops.logical_and(suppressed, groups == ops.take_along_axis(groups, best, axis=1))
        suppressed = ops.logical_or(suppressed, ops.cast(ops.arange(left.shape[1]), best.dtype) == best)
        here = ops.logical_and(places == i, score > 0)
        return (
            ops.where(suppressed, -1.0, left),
            ops.where(here, ops.cast(best, "int32"), chosen),
            ops.where(here, score, kept),
        )

    start = (ops.cast(scores, "float32"), ops.zeros((batch, count), "int32"), ops.zeros((batch, count), "float32"))
    _, chosen, kept = ops.fori_loop(0, count, step, start)
    return chosen, kept
