"""Check of a matrix product: Freivalds' algorithm for each row, with a tolerance derived from rounding.

Freivalds (1979): compare C·X with A·(B·X) for a random matrix X of a few columns, the probes. This reads every element
of C at O(n²) cost. Row i of the residual (C − A·B)·X has the expected norm ‖cᵢ − aᵢB‖·√(columns of X), so every row of
C is checked separately, and the other rows do not hide an error in a few elements.

Floating-point products are checked in float64 with normally distributed X, against the rounding error derived in
`tolerance`. int8 products are checked for equality, with whole numbers small enough for exact sums in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelbench.kernels.lib.formats import ACCUMULATION, UNIT_ROUNDOFF, by_all_cpus
from accelbench.profiling.records.quality import Verification

PROBES = 4
AT_ONCE = 1 << 16
"""Elements of a matrix converted to float64 at a time: 512 KiB, which fit in a core's cache, or one row."""
SAFETY = 4.0
"""Tolerance as a multiple of the expected error. The estimate for the worst row, from four probes, is 2–3 times its
expectation for random rounding; a lower precision, a missing block or a few wrong elements in a row exceed 4 times."""
OUTPUT = {"tf32": UNIT_ROUNDOFF["float32"], **dict.fromkeys(("fp8", "mxfp8", "nvfp4"), UNIT_ROUNDOFF["bfloat16"])}
"""Unit roundoff of C if its type differs from the type of A and B."""
SMALLEST_NORMAL = {"float16": 2.0**-14}
"""Smallest normal number of the type of C, for types in which elements of C may be smaller."""
LARGEST_PROBE = 1023
EXACT_IN_FLOAT64 = 2**53


def tolerance(dtype: str, k: int) -> float:
    """Return the bound of the relative rounding error, for A and B with independent standard normal elements.

    An element of C is a sum of k products with mean 0 and variance 1. After j terms the partial sum is about √j and
    its rounding error u·√j, independent of the others. Together these errors are u·√(Σj) = u·k/√2, that is u·√(k/2)
    relative to the result, which is about √k. Rounding C adds its unit roundoff. For tf32, rounding A and B adds √2
    times the unit roundoff of tf32 to every product and so to the sum. A and B of float16, bfloat16, fp8 and the
    block-scaled types are exact, because they are generated in these types.
    """
    accumulation = ACCUMULATION.get(dtype, 2.0**-23)
    inputs = math.sqrt(2) * UNIT_ROUNDOFF["tf32"] if dtype == "tf32" else 0.0
    output = OUTPUT[dtype] if dtype in OUTPUT else UNIT_ROUNDOFF[dtype]
    return SAFETY * (inputs + output + accumulation * math.sqrt(k / 2))


def _reference_error(k: int, n: int) -> float:
    """Return the error of the float64 check: two sums of n terms and one of k. It matters if C is float64."""
    return SAFETY * UNIT_ROUNDOFF["float64"] * (2 * math.sqrt(n / 2) + math.sqrt(k / 2))


def verify_product(a: Any, b: Any, c: Any, dtype: str, rng: np.random.Generator) -> Verification:
    """Check C = A·B for A (batch, m, k), B (batch, k, n) and C (batch, m, n), the arrays of the multiplication."""
    a, b, c = (array.reshape(-1, *array.shape[-2:]) for array in (a, b, c))
    if dtype == "int8":
        return _verify_exactly(a, b, c, rng)
    least = SMALLEST_NORMAL.get(dtype, 0.0)
    error = max(_largest_row_error(a[i], b[i], c[i], least, rng) for i in range(len(a)))
    limit = tolerance(dtype, a.shape[-1]) + _reference_error(*b.shape[-2:])
    # JSON has no infinity: the record contains the largest float instead.
    return Verification(
        passed=error <= limit,
        method="Freivalds in float64, relative norm of the worst row",
        error=error if math.isfinite(error) else float(np.finfo(np.float64).max),
        tolerance=limit,
    )


def _largest_row_error(a: Any, b: Any, c: Any, least: float, rng: np.random.Generator) -> float:
    """Return the largest norm of a row of the residual, relative to the expected norm of that row of C·X.

    Row i of C has the norm ‖aᵢ‖·‖B‖/√k for independent A and B; the larger of this and its actual norm is used. For a
    row r, r·X has the expected norm ‖r‖·‖X‖/√n. `least` is added for each element, because rounding errors do not
    decrease below the smallest normal number. The result is infinity if C contains NaN.
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
    """Check a product of whole numbers for equality, by probes with elements from −p to p.

    One probe misses a wrong row with a probability of 1 / (2p + 1); all probes together practically never do. Partial
    sums of A·(B·X) and of C·X are at most k·n·2¹⁴·p, and p is chosen so that float64 is exact for them. Raise
    ValueError if even p = 1 is too large.
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
        with np.errstate(invalid="ignore"):  # unwritten elements are NaN: they fail the check and must not warn
            return rows @ probes, np.einsum("ij,ij->i", rows, rows)

    products, squares = zip(*by_all_cpus(part, range(0, len(matrix), step)), strict=True)
    return np.concatenate(products), np.concatenate(squares)
