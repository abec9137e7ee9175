"""Softmax cross-entropy and its gradient: inputs, bytes and check.

For a row with the scores x and the label t: loss = ln Σ eˣ − x[t]. The gradient of the mean loss over all rows is
(softmax(x) − onehot(t)) / rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from accelbench.kernels.lib.array_problem import ArrayProblem, Operand, RowBlock
from accelbench.kernels.lib.formats import UNIT_ROUNDOFF
from accelbench.kernels.lib.random_array import RandomArray, draw_normal
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.verification import relative_error, verify_close

MEAN, DEVIATION = 100.0, 4.0
"""Distribution of the scores. e¹⁰⁰ overflows in float32, so an implementation that does not subtract the maximum fails;
the deviation is so small that no exponential of a difference underflows."""
RESCALED = 64
"""Roundings from rescaling a running sum when the running maximum grows: 4 for each of 16 increases. A random row of
50,257 scores has about ln 50,257 ≈ 11 increases."""


def problem(point: Point) -> ArrayProblem:
    """Return the arguments of a kernel, (scores, labels, losses, gradient): a label and a loss for each row."""
    width = int(point["vocabulary"])
    return ArrayProblem(
        operands=(
            Operand(draw_scores, length=width),
            Operand(lambda rng, rows: draw_labels(rng, rows, width), dtype="int32"),
            Operand(written=True),
            Operand(written=True, length=width),
        ),
        work=lambda rows: work_of(rows, width),
        metrics=lambda rows: {"array": Metric(4 * rows * width / 2**20, "MiB"), "rows": Metric(rows)},
        verify=verify_cross_entropy,
    )


def work_of(rows: int, width: int) -> Work:
    """Return the bytes: scores read once, gradient written once; for each row a label read and a loss written.

    Not counted are a second read of a row, because it fits in a cache, and reads of lines before they are overwritten.
    """
    return Work(bytes=4 * (2 * rows * width + 2 * rows))


def draw_scores(rng: np.random.Generator, _size: int) -> RandomArray:
    """Return normal numbers around MEAN, multiplied by uniform numbers between 1 and 1.05."""
    normal = draw_normal(rng, np.dtype(np.float32))
    factors = np.float32(1) + np.float32(0.05) * (np.abs(normal.b) - 1)
    return RandomArray(np.float32(MEAN) + np.float32(DEVIATION) * normal.a, factors)


def draw_labels(rng: np.random.Generator, rows: int, width: int) -> Any:
    """Return a random label for each row."""
    return rng.integers(0, width, rows, np.int32)


def cross_entropy(library: Any, scores: Any, labels: Any, losses: Any, gradient: Any) -> None:
    """Write losses and gradient by array operations; `library` is NumPy or CuPy."""
    rows = len(labels)
    scores, gradient = (array.reshape(rows, -1) for array in (scores, gradient))
    at_label = library.arange(rows), labels
    library.subtract(scores, scores.max(axis=1, keepdims=True), out=gradient)
    shifted = gradient[at_label]
    library.exp(gradient, out=gradient)
    sums = gradient.sum(axis=1, keepdims=True)
    losses[:] = library.log(sums[:, 0]) - shifted
    gradient *= 1 / (sums * rows)
    gradient[at_label] -= 1 / rows


def verify_cross_entropy(blocks: Iterable[RowBlock], rows: int) -> Verification:
    """Check every loss and every element of the gradient, ((scores, labels), (losses, gradient)), against float64.

    The exponential of a difference d = x − max has a relative error of |d|·u, because d is rounded, plus 4u. A sum of
    exponentials, all positive, has an error of about u·√(width/3) in any order, of which four times is allowed (Higham
    and Mary, 2019), plus RESCALED·u for the growth of the maximum. With D the largest |d|, the softmax, a quotient of
    the two, has a relative error of at most (2·D + 4·√(width/3) + RESCALED + 12)·u, and the element at the label
    another error of u of 1; the error of the gradient is relative to both. The loss contains the error of the sum in
    its logarithm and rounds once per term; its error is relative to the sum of its terms (the maximum, the logarithm
    and the label's score) and 1 for the error of the logarithm.
    """
    largest, spread, width = 0.0, 0.0, 1
    for (scores, labels), (losses, gradient) in blocks:
        width, each = len(scores) // len(labels), np.arange(len(labels))
        wide = scores.reshape(-1, width).astype(np.float64)
        top = wide.max(axis=1)
        spread = max(spread, float((top - wide.min(axis=1)).max()))
        at_label = wide[each, labels]
        wide -= top[:, None]
        np.exp(wide, out=wide)
        sums = wide.sum(axis=1)
        loss_terms = np.abs(top) + np.log(sums) + np.abs(at_label) + 1
        largest = max(largest, relative_error(losses, top + np.log(sums) - at_label, loss_terms))
        wide /= sums[:, None] * rows
        scale = wide.copy()
        wide[each, labels] -= 1 / rows
        scale[each, labels] += 1 / rows
        largest = max(largest, relative_error(gradient.reshape(-1, width), wide, scale))
    tolerance = (2 * spread + 4 * math.sqrt(width / 3) + RESCALED + 12) * UNIT_ROUNDOFF["float32"]
    return verify_close(largest, 0.0, tolerance, "float64, every loss and every element", scale=1.0)
