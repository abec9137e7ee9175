"""Non-maximum suppression of fixed shape agrees with the textbook loop."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from accelbench.workloads.vision.nms import non_maximum_suppression


def overlap(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return float(shared / (sum(areas) - shared))


def greedy(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], groups: NDArray[np.int32], threshold: float
) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] > 0 and all(groups[i] != groups[j] or overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(int(i))
    return kept


def crowd(
    seed: int, batch: int = 3, count: int = 60
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 60, (batch, count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(10, 40, (batch, count, 2))], axis=-1).astype(np.float32)
    return (
        boxes,
        rng.permuted(np.linspace(0, 1, batch * count, dtype=np.float32)).reshape(batch, count),
        (rng.integers(0, 3, (batch, count)).astype(np.int32)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("grouped", [False, True])
def test_it_agrees_with_a_plain_loop(threshold: float, grouped: bool) -> None:
    for seed in range(3):
        boxes, scores, groups = crowd(seed)
        kept, best = non_maximum_suppression(
            boxes, scores, threshold=threshold, count=60, groups=groups if grouped else None
        )
        for i in range(len(boxes)):
            expected = greedy(boxes[i], scores[i], groups[i] if grouped else np.zeros(60, np.int32), threshold)
            found = ops.convert_to_numpy(best)[i] > 0
            assert ops.convert_to_numpy(kept)[i][found].tolist() == expected
            assert ops.convert_to_numpy(best)[i][found].tolist() == scores[i][expected].tolist()
            assert found.tolist() == sorted(found.tolist(), reverse=True), "padding is last"


def test_a_smaller_count_returns_the_first_boxes() -> None:
    boxes, scores, _ = crowd(5)
    every, _ = non_maximum_suppression(boxes, scores, threshold=0.5, count=20)
    few, _ = non_maximum_suppression(boxes, scores, threshold=0.5, count=4)
    assert ops.convert_to_numpy(few).tolist() == ops.convert_to_numpy(every)[:, :4].tolist()


@pytest.mark.needs("tensorflow")
def test_it_compiles_with_xla() -> None:
    import tensorflow as tf

    boxes, scores, _ = crowd(7)
    compiled = tf.function(lambda b, s: non_maximum_suppression(b, s, threshold=0.5, count=20), jit_compile=True)
    expected, _ = non_maximum_suppression(boxes, scores, threshold=0.5, count=20)
    assert compiled(boxes, scores)[0].numpy().tolist() == ops.convert_to_numpy(expected).tolist()
