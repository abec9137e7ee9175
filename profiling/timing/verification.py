"""Verification of arrays against expected values; an element that was never written fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelbench.profiling.records.quality import Verification

AT_ONCE = 1 << 20
"""The elements converted to float64 at a time, which bounds the extra memory to a few times 8 MiB."""


def relative_error(found: Any, expected: Any, scale: Any = None) -> float:
    """Return the largest |found − expected| / scale over all elements, in float64; NaN anywhere gives infinity.

    `scale` is |expected| unless given: where terms cancel, the sum of their magnitudes is what rounding errors are
    relative to. A wrong element at scale 0 gives infinity. Raises ValueError if the shapes differ.
    """
    return _largest_error(found, expected, scale)[0]


def _largest_error(found: Any, expected: Any, scale: Any) -> tuple[float, int]:
    """Return the largest relative error, and the number of the first element that has it."""
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
    """Compare every element; passes if `relative_error` is at most the tolerance, which may be 0 for exact answers.

    Of a wrong answer it says what was expected and what was found where the error is largest.
    """
    error, place = _largest_error(found, expected, scale)
    passed = error <= tolerance
    # JSON has no infinity: the record holds the largest float instead.
    shown = error if math.isfinite(error) else float(np.finfo(np.float64).max)
    if passed:
        return Verification(passed, method, shown, tolerance)
    found, expected = np.asarray(found), np.asarray(expected)
    index = ", ".join(map(str, np.unravel_index(place, found.shape)))
    right, wrong = expected.reshape(-1)[place], found.reshape(-1)[place]
    return Verification(passed, method, shown, tolerance, expected=f"{right} at [{index}]", found=f"{wrong}")


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
    """Return in words what a check says of a wrong answer: its error, and what was expected and what was found."""
    parts = []
    if verification.error is not None:
        parts.append(f"error {verification.error:.3g}")
        if verification.tolerance is not None:
            parts.append(f"tolerated {verification.tolerance:.3g}")
    said = {"expected": verification.expected, "found": verification.found}
    parts += [f"{word} {answer}" for word, answer in said.items() if answer is not None]
    return ", ".join(parts) or "the check failed, and states neither what it expected nor what it found"
