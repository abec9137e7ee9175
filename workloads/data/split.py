"""The examples that every loader returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Split:
    """Examples to train on, and held-out ones that training never sees; labels count from 0."""

    source: str
    """A phrase that says exactly which data it is."""
    synthetic: bool = False
    note: str | None = None
    """A fact that a quality measured on these examples must be read with."""
    x_train: NDArray[Any]
    y_train: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
