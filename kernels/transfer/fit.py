"""Fit of a line to the times of copies of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TransferLine:
    """seconds = latency + bytes / bandwidth, and how far it is from what was measured."""

    latency: float
    """Seconds that a copy of no bytes would take; below 0 where small copies are faster than the line."""
    bandwidth: float
    """Bytes per second that each further byte takes."""
    residual: float
    """Root of the mean square of (line − measured) / measured."""


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> TransferLine:
    """Return the line of least Σ ((latency + sᵢ/bandwidth − tᵢ) / tᵢ)²: weighted least squares with weights 1/tᵢ².

    The times span five orders of magnitude, and so do their errors: unweighted, the largest size alone would decide.
    Linear in latency and 1/bandwidth, so it is solved directly. Hockney's model: "The communication challenge for
    MPP", Parallel Computing 20 (1994). ValueError for fewer than two sizes, and if the times do not grow with the size.
    """
    s, t = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    if s.shape != t.shape or s.ndim != 1 or len(np.unique(s)) < 2 or not (np.isfinite(t) & (t > 0)).all():
        raise ValueError("a line needs a positive time for each of two different sizes, at least")
    columns = np.stack([1 / t, s / t], axis=1)
    scale = np.linalg.norm(columns, axis=0)  # seconds and seconds per byte differ by as many orders of magnitude
    latency, per_byte = np.linalg.lstsq(columns / scale, np.ones_like(t), rcond=None)[0] / scale
    if per_byte <= 0:
        raise ValueError("the times do not grow with the size: no bandwidth")
    relative = columns @ (latency, per_byte) - 1
    return TransferLine(float(latency), float(1 / per_byte), float(np.sqrt(np.mean(relative**2))))
