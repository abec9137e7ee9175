"""The types' numbers as they are drawn, stored on a device and read back as numbers that NumPy computes with.

NumPy has no bfloat16 and no fp8 (e4m3, OCP 8-bit Floating Point Specification 1.0): their bits travel as unsigned
integers, which every GPU library takes. tf32 is arithmetic only: it is stored as float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
BLOCK = 1 << 20
"""Elements that one generator draws: some 10 ms, beside which the 30 µs of making a generator are little."""


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

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff: half the distance from 1 to the next number."""
ACCUMULATION = {"float64": UNIT_ROUNDOFF["float64"], "float32": UNIT_ROUNDOFF["float32"], "fp8": 2.0**-13}
"""Rounding of a partial sum. All narrow types accumulate in float32, where tensor cores may truncate: 2⁻²³. Those of
Hopper keep 13 bits behind the point of what they add up of fp8 (DeepSeek-V3 Technical Report, 2024, section 3.3.2)."""


def poison_byte(result: str) -> int:
    """Return the byte that C is filled with, so that an element that is never written is found out: NaN, for floats.

    As int32 it is −2,139,062,144, which no sum of fewer than 130,559 products of int8 reaches.
    """
    return 0x80 if result == "int32" else 0xFF


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Return random numbers as they are stored: standard normal, or the whole range of int8.

    All CPUs draw, and the numbers do not depend on how many there are: each block has a generator of its own, which
    `rng` spawns. The next call draws other numbers.
    """
    drawn = np.empty(shape, FORMATS[dtype].storage)
    flat = drawn.reshape(-1)
    begins = range(0, flat.size, BLOCK)

    def fill(begin: int, own: np.random.Generator) -> None:
        block = flat[begin : begin + BLOCK]
        if dtype == "int8":
            block[:] = own.integers(-128, 128, block.size, np.int8)
        elif block.dtype in (np.float64, np.float32):
            own.standard_normal(dtype=block.dtype.type, out=block)
        else:
            block[:] = to_storage(own.standard_normal(block.size, np.float32), dtype)

    by_all_cpus(fill, begins, rng.spawn(len(begins)))
    return drawn


def to_storage(x: Any, dtype: str) -> Any:
    """Round numbers to the nearest of the type, ties to even, and return them as they are stored."""
    small = _small_float(dtype)
    return x.astype(small).view(FORMATS[dtype].storage) if small else x.astype(FORMATS[dtype].storage)


def from_storage(x: Any, dtype: str) -> Any:
    """Return what is stored as numbers, exactly: float32 for the types that NumPy lacks."""
    small = _small_float(dtype)
    return x.view(small).astype(np.float32) if small else x


def _small_float(dtype: str) -> Any:
    if dtype not in ("bfloat16", "fp8"):
        return None
    import ml_dtypes

    return {"bfloat16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn}[dtype]


def by_all_cpus(work: Callable[..., T], *arguments: Iterable[object]) -> list[T]:
    """Return `work`'s results in the order of its arguments, as `map` takes them; it must mostly be outside the GIL.

    NumPy releases the GIL while it draws, converts and multiplies.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cpus) as pool:
        return list(pool.map(work, *arguments))
