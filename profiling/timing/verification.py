"""Verification of arrays against expected values; an element that was never written fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelbench.profiling.records.quality import Verification

AT_ONCE = 1 << 20
"""The number of elements converted to float64 at a time, which limits the extra memory to a few times 8 MiB."""


def relative_error(found: Any, expected: Any, scale: Any = None) -> float:
    """Return the largest |found − expected| / scale over all elements, in float64; infinity if any element is NaN.

    `scale` is |expected| by default. Where terms cancel, use the sum of their magnitudes, to which rounding errors are
    relative. A wrong element at scale 0 gives infinity. Raises ValueError if the shapes differ.
    """
    return _largest_error(found, expected, scale)[0]


def _largest_error(found: Any, expected: Any, scale: Any) -> tuple[float, int]:
    """Return the largest relative error, and the flat index of the first element with that error."""
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.abs(expected) if scale is None else np.asarray(scale)
    if not found.shape == expected.shape == scale.shape:
        raise ValueError(f"shapes differ: {found.shape} found, {expected.shape} expected, scale {scale.shape}")
    flat = [array.reshape(-1) for array in (found, expected, scale)]
    largest, place = 0.0, 0
    for begin in range(0, found.size, AT_ONCE):
        f, e, s = (array[begin : begin + AT_ONCE].astype(np.float64) for array in flat)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            errors = np.where(f == e, 0.0, np.abs(f - e) / s)
        errors = np.where(np.isnan(errors), np.inf, errors)
        worst = int(np.argmax(errors))
        if errors[worst] > largest:
            largest, place = float(errors[worst]), begin + worst
    return largest, place


def verify_close(found: Any, expected: Any, tolerance: float, method: str, scale: Any = None) -> Verification:
    """Compare every element; the check passes if `relative_error` is at most `tolerance`, which is 0 for exact answers.

    If it fails, `expected` and `found` are the values at the element with the largest error.
    """
    error, place = _largest_error(found, expected, scale)
    passed = error <= tolerance
    # JSON has no infinity; the record contains the largest float instead.
    shown = error if math.isfinite(error) else float(np.finfo(np.float64).max)
    if passed:
        return Verification(passed, method, shown, tolerance)
    found, expected = np.asarray(found), np.asarray(expected)
    index = ", ".join(map(str, np.unravel_index(place, found.shape)))
    right, wrong = expected.reshape(-1)[place], found.reshape(-1)[place]
    return Verification(passed, method, shown, tolerance, expected=f"{right} at [{index}]", found=f"{wrong}")


def outcome_of(verification: Verification) -> dict[str, Any]:
    """Return the record fields of a verification; a wrong answer is a failed point.

    Raises TypeError if `verification` is not a Verification with a bool.
    """
    if not (isinstance(verification, Verification) and isinstance(verification.passed, bool | np.bool_)):
        raise TypeError(f"verify() must return a Verification with passed=True or False, not {verification!r}")
    if verification.passed:
        return {"status": "measured", "verification": verification}
    reason = f"wrong answer: {verification.method}: {detail_of(verification)}"
    return {"status": "failed", "reason": reason, "verification": verification}


def detail_of(verification: Verification) -> str:
    """Return error, expected and found value of a wrong answer as text."""
    parts = []
    if verification.error is not None:
        parts.append(f"error {verification.error:.3g}")
        if verification.tolerance is not None:
            parts.append(f"tolerated {verification.tolerance:.3g}")
    values = {"expected": verification.expected, "found": verification.found}
    parts += [f"{name} {value}" for name, value in values.items() if value is not None]
    return ", ".join(parts) or "no details"
