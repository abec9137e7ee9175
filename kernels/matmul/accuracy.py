"""Check of a matrix product: Freivalds' algorithm row by row, and a tolerance derived from rounding.

Freivalds (1979): for a random matrix X of a few columns, C·X = A·(B·X) for every X only if C = A·B. It reads every
element of C at O(n²) cost. Row i of the residual (C − A·B)·X has the expected norm ‖cᵢ − aᵢB‖·√(columns of X), so each
row of C is checked by itself: an error in a few elements is not hidden by the others.

Floating-point types are checked in float64 with normal X, against the rounding derived in `tolerance`. int8 products
are checked with whole numbers, small enough that float64 computes every sum exactly, and must agree exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelbench.kernels.lib.formats import ACCUMULATION, UNIT_ROUNDOFF, by_all_cpus
from accelbench.profiling.records.quality import Verification

PROBES = 4
AT_ONCE = 1 << 16
"""Elements of a matrix copied to float64 at a time: 512 KiB, which a core's cache holds, or one row."""
SAFETY = 4.0
"""The tolerance in expected errors: random rounding stays below it in the worst of all rows, whose estimate from four
probes is 2 to 3 times its expectation; a lower precision, a missing block or a few wrong elements of a row do not."""
OUTPUT = {"tf32": UNIT_ROUNDOFF["float32"], "fp8": UNIT_ROUNDOFF["bfloat16"]}
"""Rounding of C itself where it is not of A's and B's type."""
SMALLEST_NORMAL = {"float16": 2.0**-14}
"""The smallest normal number of the type of C, where a product may well be smaller."""
LARGEST_PROBE = 1023
EXACT_IN_FLOAT64 = 2**53


def tolerance(dtype: str, k: int) -> float:
    """Return the largest relative error that rounding explains, for A and B of independent standard normal elements.

    An element of C is a sum of k products with mean 0 and variance 1. After j of them the partial sum is about √j, and
    rounding it errs by u·√j, independently each time: together u·√(Σj) = u·k/√2, relative to the result's √k that is
    u·√(k/2). Rounding C itself adds its own unit roundoff, and rounding A and B to tf32 first adds √2 of tf32's to
    every product, and so to their sum. A and B of float16, bfloat16 and fp8 are what was rounded: they count as exact.
    """
    accumulation = ACCUMULATION.get(dtype, 2.0**-23)
    inputs = math.sqrt(2) * UNIT_ROUNDOFF["tf32"] if dtype == "tf32" else 0.0
    output = OUTPUT[dtype] if dtype in OUTPUT else UNIT_ROUNDOFF[dtype]
    return SAFETY * (inputs + output + accumulation * math.sqrt(k / 2))


def _reference_error(k: int, n: int) -> float:
    """Return the error of float64 in checking: two sums of n terms, one of k. It shows where C is float64 itself."""
    return SAFETY * UNIT_ROUNDOFF["float64"] * (2 * math.sqrt(n / 2) + math.sqrt(k / 2))


def verify_product(a: Any, b: Any, c: Any, dtype: str, rng: np.random.Generator) -> Verification:
    """Check C = A·B for A (…, m, k), B (…, k, n) and C (…, m, n), as numbers that were given to the multiplication."""
    a, b, c = (array.reshape(-1, *array.shape[-2:]) for array in (a, b, c))
    if dtype == "int8":
        return _verify_exactly(a, b, c, rng)
    least = SMALLEST_NORMAL.get(dtype, 0.0)
    error = max(_largest_row_error(a[i], b[i], c[i], least, rng) for i in range(len(a)))
    limit = tolerance(dtype, a.shape[-1]) + _reference_error(*b.shape[-2:])
    # JSON has no infinity: the record holds the largest float instead.
    return Verification(
        passed=error <= limit,
        method="Freivalds in float64, relative norm of the worst row",
        error=error if math.isfinite(error) else float(np.finfo(np.float64).max),
        tolerance=limit,
    )


def _largest_row_error(a: Any, b: Any, c: Any, least: float, rng: np.random.Generator) -> float:
    """Return the largest ‖residual of a row‖ over the size that its row of C is expected to give; infinity for NaN.

    Row i of C has the norm ‖aᵢ‖·‖B‖/√k if A and B are independent, or a larger one; a row r gives r·X the norm
    ‖r‖·‖X‖/√n. `least` is added for each element: below the smallest normal number, rounding errors no longer shrink
    with what is rounded.
    """
    k, n = b.shape
    probes = rng.standard_normal((n, PROBES))
    b_probes, b_squares = _times(b, probes)
    ab_probes, a_squares = _times(a, b_probes)
    c_probes, c_squares = _times(c, probes)
    with np.errstate(invalid="ignore"):
        residual = np.linalg.norm(c_probes - ab_probes, axis=1)
    rows = np.maximum(np.sqrt(a_squares * b_squares.sum() / k), np.sqrt(c_squares)) + least * math.sqrt(n)
    scale = rows * np.linalg.norm(probes) / math.sqrt(n)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.where(residual == 0, 0.0, residual / scale)
    return float(np.max(np.where(np.isnan(errors), np.inf, errors)))


def _verify_exactly(a: Any, b: Any, c: Any, rng: np.random.Generator) -> Verification:
    """Check whole numbers: a difference in a row goes unseen by one probe of ±p once in 2p + 1, by all of them never.

    Every partial sum of A·(B·X) is at most k·n·2¹⁴·p, of C·X as much: p keeps that within what float64 holds exactly.
    Raises ValueError where even p = 1 would not.
    """
    batch, k, n = b.shape
    largest = min(LARGEST_PROBE, EXACT_IN_FLOAT64 // (k * n * 2**14))
    if largest < 1:
        raise ValueError(f"a product with k={k} and n={n} is too large to be checked exactly in float64")
    wrong = 0.0
    for i in range(batch):
        probes = rng.integers(-largest, largest + 1, (n, PROBES)).astype(np.float64)
        residual = _times(c[i], probes)[0] - _times(a[i], _times(b[i], probes)[0])[0]
        wrong = max(wrong, float(np.max(np.abs(residual))))
    return Verification(passed=wrong == 0, method="Freivalds with whole numbers, exact", error=wrong, tolerance=0.0)


def _times(matrix: Any, probes: Any) -> tuple[Any, Any]:
    """Return the matrix times the probes, and the sum of squares of each of its rows, in float64."""
    step = max(1, AT_ONCE // matrix.shape[1])

    def part(begin: int) -> tuple[Any, Any]:
        rows = matrix[begin : begin + step].astype(np.float64)
        with np.errstate(invalid="ignore"):  # what was not written is NaN: it must fail the check, not warn
            return rows @ probes, np.einsum("ij,ij->i", rows, rows)

    products, squares = zip(*by_all_cpus(part, range(0, len(matrix), step)), strict=True)
    return np.concatenate(products), np.concatenate(squares)
