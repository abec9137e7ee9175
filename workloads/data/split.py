"""Base class of loaded data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Split:
    """Training and held-out examples; labels start at 0."""

    source: str
    """Description that identifies the data."""
    synthetic: bool = False
    note: str | None = None
    """Caveat for quality measured on these examples."""
    x_train: NDArray[Any]
    y_train: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]


def evenly(count: int, available: int) -> NDArray[np.int64]:
    """Return evenly spaced indices of `count` of `available` examples, so that all groups of sorted examples occur."""
    return np.arange(count, dtype=np.int64) * available // count
