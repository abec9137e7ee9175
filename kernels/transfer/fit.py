"""Fit of a line to the times of copies of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TransferLine:
    """Fitted line seconds = latency + bytes / bandwidth, and its residual."""

    latency: float
    """Time of a copy of zero bytes in seconds; negative if small copies are faster than the line."""
    bandwidth: float
    """Bytes per second for large copies: the inverse of the slope."""
    residual: float
    """Root mean square of (line − measured) / measured."""


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> TransferLine:
    """Return the line of least Σ ((latency + sᵢ/bandwidth − tᵢ) / tᵢ)²: weighted least squares with weights 1/tᵢ².

    Without weights the largest size alone would determine the line, because the times and their errors span five orders
    of magnitude. The model is linear in latency and 1/bandwidth and is solved directly (Hockney, "The communication
    challenge for MPP", Parallel Computing 20, 1994). Raise ValueError for fewer than two sizes, or if the times do not
    grow with the size.
    """
    s, t = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    if s.shape != t.shape or s.ndim != 1 or len(np.unique(s)) < 2 or not (np.isfinite(t) & (t > 0)).all():
        raise ValueError("a line requires positive times of at least two different sizes")
    columns = np.stack([1 / t, s / t], axis=1)
    scale = np.linalg.norm(columns, axis=0)  # seconds and seconds per byte differ by as many orders of magnitude
    latency, per_byte = np.linalg.lstsq(columns / scale, np.ones_like(t), rcond=None)[0] / scale
    if per_byte <= 0:
        raise ValueError("the times do not grow with the size, so the bandwidth is undefined")
    relative = columns @ (latency, per_byte) - 1
    return TransferLine(float(latency), float(1 / per_byte), float(np.sqrt(np.mean(relative**2))))
