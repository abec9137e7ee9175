"""Root-mean-square norm of rows: inputs, bytes and check (Zhang and Sennrich, "Root Mean Square Layer Normalization",
2019)."""

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

EPSILON = 1e-5
DEVIATION = 0.01
"""Standard deviation of the input: so small a mean square that a missing ε fails the check."""


def problem(point: Point) -> ArrayProblem:
    """Return the arguments of a kernel, (x, scale, out): x and out of whole rows, the scale of one row."""
    width = int(point["width"])
    return ArrayProblem(
        operands=(
            Operand(draw_rows, length=width),
            Operand(draw_scale, length=width, per_row=False),
            Operand(written=True, length=width),
        ),
        work=lambda rows: work_of(rows, width),
        metrics=lambda rows: {"array": Metric(4 * rows * width / 2**20, "MiB"), "rows": Metric(rows)},
        verify=lambda blocks, _: verify_norm(blocks),
    )


def work_of(rows: int, width: int) -> Work:
    """Return the bytes: input and scale read once, output written once.

    Not counted are a second read of a row, because it fits in a cache, and reads of lines before they are overwritten.
    """
    return Work(bytes=4 * (2 * rows * width + width))


def draw_rows(rng: np.random.Generator, _size: int) -> RandomArray:
    """Return normal numbers with a standard deviation of about DEVIATION."""
    return draw_normal(rng, np.dtype(np.float32)).scaled(DEVIATION)


def draw_scale(rng: np.random.Generator, width: int) -> Any:
    """Return the scale of each column, uniform in [0.5, 1.5)."""
    return rng.random(width, np.float32) + np.float32(0.5)


def normalize(library: Any, x: Any, scale: Any, out: Any) -> None:
    """Write the norm of flat rows to `out` by array operations; `library` is NumPy or CuPy."""
    x, out = (array.reshape(-1, len(scale)) for array in (x, out))
    library.multiply(x, x, out=out)
    mean = out.mean(axis=1, keepdims=True)
    library.multiply(x, 1 / library.sqrt(mean + EPSILON), out=out)
    out *= scale


def verify_norm(blocks: Iterable[RowBlock]) -> Verification:
    """Check every element of ((x, scale), (out,)) against float64, relative to the element.

    The mean square is a sum of squares in any order. Each addition has an error of at most u times the partial sum,
    independent of the others, so the sum has an error of about u·√(width/3); four times that is allowed (Higham and
    Mary, 2019, on probabilistic bounds). The root halves the error. The squares, the division by the width, ε, the
    root, the division and two products round once each: at most 8u.
    """
    largest, width = 0.0, 1
    for (x, scale), (out,) in blocks:
        width = len(scale)
        wide = x.reshape(-1, width).astype(np.float64)
        expected = wide / np.sqrt(np.mean(wide**2, axis=1, keepdims=True) + EPSILON) * scale.astype(np.float64)
        largest = max(largest, relative_error(out.reshape(-1, width), expected))
    tolerance = (2 * math.sqrt(width / 3) + 8) * UNIT_ROUNDOFF["float32"]
    return verify_close(largest, 0.0, tolerance, "float64, every element", scale=1.0)
