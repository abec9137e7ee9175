"""Number formats: storage, rounding, and conversion to the types that NumPy computes with.

NumPy has no bfloat16 and no fp8 (e4m3, OCP 8-bit Floating Point Specification 1.0): their bits are stored as unsigned
integers, which every GPU library accepts. tf32 is arithmetic only: it is stored as float32.
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
"""Elements that one generator draws, in about 10 ms; creating the generator takes 30 µs."""


@dataclass(frozen=True)
class MatmulFormat:
    """A type of arithmetic: the storage of A and B, and the format of C."""

    storage: str
    result: str
    """Key of C's format in `FORMATS`: int8 is summed into int32; fp8 is rounded to bfloat16, as in training."""

    @property
    def itemsize(self) -> int:
        return np.dtype(self.storage).itemsize

    @property
    def result_itemsize(self) -> int:
        return np.dtype(FORMATS[self.result].storage).itemsize


FORMATS = {
    "float64": MatmulFormat("float64", "float64"),
    "float32": MatmulFormat("float32", "float32"),
    "tf32": MatmulFormat("float32", "float32"),
    "float16": MatmulFormat("float16", "float16"),
    "bfloat16": MatmulFormat("uint16", "bfloat16"),
    "fp8": MatmulFormat("uint8", "bfloat16"),
    "int8": MatmulFormat("int8", "int32"),
    "int32": MatmulFormat("int32", "int32"),
}

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff: half the distance from 1 to the next number."""
ACCUMULATION = {"float64": UNIT_ROUNDOFF["float64"], "float32": UNIT_ROUNDOFF["float32"], "fp8": 2.0**-13}
"""Rounding of a partial sum. All narrow types accumulate in float32, where tensor cores may truncate: 2⁻²³. Hopper's
tensor cores keep 13 fractional bits when they add products of fp8 (DeepSeek-V3 Technical Report, 2024, section
3.3.2)."""


def poison_byte(result: str) -> int:
    """Return the byte that C is filled with before a check: NaN in every floating-point format.

    As int32 it is −2,139,062,144, which no sum of fewer than 130,559 products of int8 reaches.
    """
    return 0x80 if result == "int32" else 0xFF


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Return random numbers in storage form: standard normal, or the whole range of int8.

    The result does not depend on the number of CPUs: `rng` spawns a generator for each block. The next call returns
    other numbers.
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
    """Round to the nearest number of the format, ties to even, and return the storage form."""
    small = _small_float(dtype)
    return x.astype(small).view(FORMATS[dtype].storage) if small else x.astype(FORMATS[dtype].storage)


def from_storage(x: Any, dtype: str) -> Any:
    """Return the exact values of stored numbers: float32 for the formats that NumPy lacks."""
    small = _small_float(dtype)
    return x.view(small).astype(np.float32) if small else x


def _small_float(dtype: str) -> Any:
    if dtype not in ("bfloat16", "fp8"):
        return None
    import ml_dtypes

    return {"bfloat16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn}[dtype]


def by_all_cpus(work: Callable[..., T], *arguments: Iterable[object]) -> list[T]:
    """Return `list(map(work, *arguments))`, computed by one thread per available CPU.

    `work` must mostly run without the GIL, which NumPy releases while it draws, converts and multiplies.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cpus) as pool:
        return list(pool.map(work, *arguments))
