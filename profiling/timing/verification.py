"""Checking an answer against the right one: pure functions over arrays; an element that was never written fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from profiling.records.quality import Verification

AT_ONCE = 1 << 20
"""The elements converted to float64 at a time, which bounds the extra memory to a few times 8 MiB."""


def relative_error(found: Any, expected: Any, scale: Any = None) -> float:
    """Return the largest |found − expected| / scale over all elements, in float64; NaN anywhere gives infinity.

    `scale` is |expected| unless given: where terms cancel, the sum of their magnitudes is what rounding errors are
    relative to. A wrong element at scale 0 gives infinity. Raises ValueError if the shapes differ.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.abs(expected) if scale is None else np.asarray(scale)
    if not found.shape == expected.shape == scale.shape:
        raise ValueError(f"shapes differ: {found.shape} found, {expected.shape} expected, scale {scale.shape}")
    flat = [array.reshape(-1) for array in (found, expected, scale)]
    largest = 0.0
    for begin in range(0, found.size, AT_ONCE):
        f, e, s = (array[begin : begin + AT_ONCE].astype(np.float64) for array in flat)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            errors = np.where(f == e, 0.0, np.abs(f - e) / s)
        largest = max(largest, float(np.max(np.where(np.isnan(errors), np.inf, errors))))
    return largest


def verify_close(found: Any, expected: Any, tolerance: float, method: str, scale: Any = None) -> Verification:
    """Compare every element; passes if `relative_error` is at most the tolerance, which may be 0 for exact answers."""
    error = relative_error(found, expected, scale)
    # JSON has no infinity: the record holds the largest float instead.
    return Verification(
        passed=error <= tolerance,
        method=method,
        error=error if math.isfinite(error) else float(np.finfo(np.float64).max),
        tolerance=tolerance,
    )


def outcome_of(verification: Verification) -> dict[str, Any]:
    """Return the fields of a record that a checked answer decides: a wrong one is a failed point.

    TypeError if a benchmark's check gave anything else.
    """
    if not (isinstance(verification, Verification) and isinstance(verification.passed, bool | np.bool_)):
        raise TypeError(f"the check of the answer gave {verification!r}, which says neither right nor wrong")
    if verification.passed:
        return {"status": "measured", "verification": verification}
    reason = f"wrong answer: {verification.method}: {_detail(verification)}"
    return {"status": "failed", "reason": reason, "verification": verification}


def _detail(verification: Verification) -> str:
    """Return in words what a check says of a wrong answer: its error, or what was expected and what was found."""
    if verification.error is not None:
        tolerated = "" if verification.tolerance is None else f", tolerated {verification.tolerance:.3g}"
        return f"error {verification.error:.3g}{tolerated}"
    said = {"expected": verification.expected, "found": verification.found}
    words = ", ".join(f"{word} {answer}" for word, answer in said.items() if answer is not None)
    return words or "the check failed, and states neither what it expected nor what it found"
