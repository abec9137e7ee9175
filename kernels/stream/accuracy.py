"""Check of the elementwise operations of stream against float64."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from accelbench.kernels.stream.operations import READS_Y, SCALAR
from accelbench.profiling.records.quality import Verification


def verify_elements(op: str, dtype: Any, parts: Iterable[tuple[Any, Any, Any]]) -> Verification:
    """Check every element of copy, mul, add or triad against float64, given (x, y, out) in parts.

    Errors are relative to the sum of the magnitudes of the terms. Each operation rounds once, by at most u = ε/2 of its
    result; triad rounds the product and the sum, 2u (once if fused). The rounding of SCALAR to the type adds u for mul
    and triad. A copy must be exact.
    """
    limit = {"copy": 0, "mul": 2, "add": 1, "triad": 3}[op] * float(np.finfo(dtype).eps) / 2
    worst = max(_largest_error(op, *part) for part in parts)
    # The float64 reference is rounded, too, which matters if the type is float64.
    reference = 3 * float(np.finfo(np.float64).eps) / 2 if op != "copy" else 0.0
    return Verification(
        passed=worst <= limit + reference, method="float64, every element", error=worst, tolerance=limit + reference
    )


def _largest_error(op: str, x: Any, y: Any, out: Any) -> float:
    # In place, because allocating temporaries would take longer than the arithmetic.
    error = np.multiply(x, SCALAR if op == "mul" else 1.0, dtype=np.float64)
    scale = np.abs(error)
    if op in READS_Y:
        second = np.multiply(y, SCALAR if op == "triad" else 1.0, dtype=np.float64)
        error += second
        scale += np.abs(second, out=second)
    error -= out
    error = np.abs(error, out=error)
    error /= np.maximum(scale, np.finfo(x.dtype).tiny, out=scale)
    largest = float(error.max())
    # NaN, from an element that was not written, counts as the largest possible error.
    return largest if np.isfinite(largest) else float(np.finfo(np.float64).max)
