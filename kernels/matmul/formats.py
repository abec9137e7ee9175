"""How each type's numbers are drawn, stored on a device and read back as numbers that NumPy computes with.

NumPy has no bfloat16 and no fp8 (e4m3, OCP 8-bit Floating Point Specification 1.0): their bits travel as unsigned
integers, which every GPU library takes. tf32 is arithmetic only: it is stored as float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Format:
    """One type of arithmetic: what A and B are stored as, and what C is."""

    storage: str
    result: str
    """The word of C's type: int8 is summed into int32, fp8 rounded to bfloat16, as training does."""

    @property
    def itemsize(self) -> int:
        return np.dtype(self.storage).itemsize

    @property
    def result_itemsize(self) -> int:
        return np.dtype(FORMATS[self.result].storage).itemsize


FORMATS = {
    "float64": Format("float64", "float64"),
    "float32": Format("float32", "float32"),
    "tf32": Format("float32", "float32"),
    "float16": Format("float16", "float16"),
    "bfloat16": Format("uint16", "bfloat16"),
    "fp8": Format("uint8", "bfloat16"),
    "int8": Format("int8", "int32"),
    "int32": Format("int32", "int32"),
}
POISON = {"int32": -(2**31)}
"""What C is filled with so that an element that is never written is found out; NaN for floats. No sum is −2³¹."""


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Random numbers as they are stored: standard normal, or the whole range of int8."""
    if dtype == "int8":
        return rng.integers(-128, 128, shape, np.int8)
    return to_storage(rng.standard_normal(shape, np.float64 if dtype == "float64" else np.float32), dtype)


def poison(shape: tuple[int, ...], result: str) -> Any:
    """An array that holds no right answer, as it is stored."""
    if result in POISON:
        return np.full(shape, POISON[result], result)
    return to_storage(np.full(shape, np.nan, np.float32), result)


def to_storage(x: Any, dtype: str) -> Any:
    """Numbers rounded to the nearest of the type, ties to even, as they are stored."""
    small = _small_float(dtype)
    return x.astype(small).view(FORMATS[dtype].storage) if small else x.astype(FORMATS[dtype].storage)


def from_storage(x: Any, dtype: str) -> Any:
    """What is stored as numbers, exactly: float32 for the types that NumPy lacks."""
    small = _small_float(dtype)
    return x.view(small).astype(np.float32) if small else x


def _small_float(dtype: str) -> Any:
    if dtype not in ("bfloat16", "fp8"):
        return None
    import ml_dtypes

    return {"bfloat16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn}[dtype]
