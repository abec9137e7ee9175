"""Sum of a long array: random whole numbers, bytes, and the check, which is exact for every type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from accelbench.kernels.lib.array_problem import ArrayProblem, Operand, RowBlock
from accelbench.kernels.lib.exact import LARGEST, exact_sum, verify_sum
from accelbench.kernels.lib.random_array import PART, draw_whole
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

SUM_TYPE = {"float64": "float64", "float32": "float32", "int32": "int64"}
"""Type of the sum by type of the elements, as in NumPy."""


def problem(point: Point) -> ArrayProblem:
    """Return the arguments of a kernel, (x, out): out[0] = Σ x."""
    dtype = str(point["dtype"])
    itemsize = np.dtype(dtype).itemsize
    return ArrayProblem(
        operands=(
            Operand(lambda rng, _: draw_whole(rng, LARGEST), dtype=dtype),
            Operand(written=True, per_row=False, dtype=SUM_TYPE[dtype]),
        ),
        work=lambda length: Work(bytes=length * itemsize),
        metrics=lambda length: {"array": Metric(length * itemsize / 2**20, "MiB")},
        verify=lambda blocks, _: verify_total(blocks),
    )


def add_up(library: Any, x: Any, out: Any) -> None:
    """Write the sum by array operations; `library` is NumPy or CuPy."""
    library.sum(x, out=out.reshape(()))


def verify_total(blocks: Iterable[RowBlock]) -> Verification:
    """Check the sum bit by bit."""
    ones, expected = np.ones(PART, np.float32), 0
    for (x,), (out,) in blocks:
        expected += exact_sum((x[i : i + PART], ones[: len(x) - i]) for i in range(0, len(x), PART))
        found = out[0]
    return verify_sum(expected, found)
