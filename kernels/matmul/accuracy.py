"""Is C the product of A and B? Freivalds' check in float64, and how far rounding alone may move its answer.

Freivalds (1979): for a random matrix X of a few columns, C·X = A·(B·X) for every X only if C = A·B. It reads every
element of C at O(n²) cost. With normal X the relative residual estimates ‖Ĉ − A·B‖ / ‖A·B‖ in the Frobenius norm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from profiling.benchmark import Verification

PROBES = 4
ROWS_AT_ONCE = 1024
"""Bounds the float64 copies to a few rows of each matrix."""
SAFETY = 4.0
"""Times the expected error: random rounding stays below, a missing block or a lower precision does not."""
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff: half the distance from 1 to the next number."""


def tolerance(dtype: str, n: int) -> float:
    """The largest relative error that rounding explains, for A and B of independent standard normal elements.

    An element of C is a sum of n products with mean 0 and variance 1. After k of them the partial sum is about √k, and
    rounding it errs by u·√k, independently each time: together u·√(Σk) = u·n/√2, relative to the result's √n that is
    u·√(n/2). Rounding C itself adds its own unit roundoff, and rounding A and B to tf32 first adds √2 of tf32's to
    every product, and so to their sum. Narrow types accumulate in float32, where tensor cores may truncate: u = 2⁻²³.
    """
    narrow = dtype in ("tf32", "float16", "bfloat16")
    accumulation = 2.0**-23 if narrow else UNIT[dtype]
    inputs = math.sqrt(2) * UNIT["tf32"] if dtype == "tf32" else 0.0
    output = UNIT["float32" if dtype == "tf32" else dtype]
    return SAFETY * (inputs + output + accumulation * math.sqrt(n / 2))


def verify_product(a: Any, b: Any, c: Any, dtype: str, rng: np.random.Generator) -> Verification:
    """Check C = A·B for n×n arrays of any float type, as they were given to the multiplication."""
    probes = rng.standard_normal((a.shape[1], PROBES))
    with np.errstate(invalid="ignore"):  # what was not written is NaN, and must fail the check rather than warn
        found = _times(c, probes)
        expected = _times(a, _times(b, probes))
        error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    limit = tolerance(dtype, a.shape[1])
    # NaN compares false: an unwritten element fails. JSON has no NaN, so the record holds the largest float instead.
    return Verification(
        passed=error <= limit,
        method="Freivalds in float64, relative Frobenius norm",
        error=error if math.isfinite(error) else float(np.finfo(np.float64).max),
        tolerance=limit,
    )


def _times(matrix: Any, probes: Any) -> Any:
    return np.concatenate(
        [matrix[i : i + ROWS_AT_ONCE].astype(np.float64) @ probes for i in range(0, matrix.shape[0], ROWS_AT_ONCE)]
    )
