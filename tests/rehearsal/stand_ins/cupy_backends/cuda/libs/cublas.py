"""Stand-in for CuPy's cuBLAS, with NumPy: products of column-major matrices in device memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

TYPES = {0: "float32", 1: "float64", 2: "float16"}  # cudaDataType


def setMathMode(handle: int, mode: int) -> None: ...


def gemmEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int,
    B: int, Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    if transa or transb or not Atype == Btype == Ctype:
        raise NotImplementedError("gemmEx of transposed matrices or of several types")
    dtype = TYPES[Atype]
    a, b, c = _matrix(A, lda, k, m, dtype), _matrix(B, ldb, n, k, dtype), _matrix(C, ldc, n, m, dtype)
    c[...] = b.astype(np.float64) @ a.astype(np.float64)


def _matrix(address: int, leading: int, columns: int, rows: int, dtype: str) -> Any:
    """Return the transpose of a column-major matrix."""
    size = leading * columns * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(columns, leading)[:, :rows]
