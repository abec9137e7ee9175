"""C = A·B by NVIDIA's cuBLAS, called through CuPy: what the card's own vendor gets out of it.

Bound: 2n³ floating-point operations, and 3n² elements through device memory; at n ≥ 2048 the operations dominate
on every card. `float32` is strict (no TF32); `tf32` rounds the same float32 inputs to 10 bits inside the
tensor cores; `float16` and `bfloat16` accumulate in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.matmul.accuracy import verify_product
from profiling.benchmark import Point, Task, Verification, Work
from profiling.cuda import cupy_stream, library, require_compute_capability, require_device_memory, synchronize

CUBLAS_OP_N = 0
CUBLAS_GEMM_DEFAULT = -1
CUBLAS_DEFAULT_MATH = 0


@dataclass(frozen=True)
class Arithmetic:
    """How cuBLAS is asked for a type, by numbers from library_types.h and cublas_api.h."""

    storage: str
    data_type: int
    compute_type: int
    scalar: str
    capability: tuple[int, int]


ARITHMETIC = {
    "float64": Arithmetic("float64", 1, 70, "float64", (3, 5)),  # CUDA_R_64F, CUBLAS_COMPUTE_64F
    "float32": Arithmetic("float32", 0, 68, "float32", (3, 5)),  # CUDA_R_32F, CUBLAS_COMPUTE_32F
    "tf32": Arithmetic("float32", 0, 77, "float32", (8, 0)),  # CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32
    "float16": Arithmetic("float16", 2, 68, "float32", (5, 3)),  # CUDA_R_16F, CUBLAS_COMPUTE_32F
    "bfloat16": Arithmetic("uint16", 14, 68, "float32", (8, 0)),  # CUDA_R_16BF, CUBLAS_COMPUTE_32F
}


def prepare(point: Point) -> Task:
    """Random normal A and B on the device, and C; Skip where the device lacks the type or the memory."""
    cupy = library("cupy")
    cublas = library("cupy_backends.cuda.libs.cublas")
    n, dtype = int(point["n"]), str(point["dtype"])
    how = ARITHMETIC[dtype]
    require_compute_capability(how.capability, dtype)
    itemsize = np.dtype(how.storage).itemsize
    require_device_memory(3 * n * n * itemsize)

    rng = point.rng()
    drawn: Any = np.float64 if dtype == "float64" else np.float32
    a, b, c = (cupy.empty((n, n), how.storage) for _ in range(3))
    one, zero = np.ones(1, how.scalar), np.zeros(1, how.scalar)
    handle = cupy.cuda.Device().cublas_handle
    # CuPy's default, made certain: float32 must not be computed in TF32, whatever CUPY_TF32 says.
    cublas.setMathMode(handle, CUBLAS_DEFAULT_MATH)

    def run(stream: int = 0) -> None:
        # cuBLAS is column-major: it reads row-major A as Aᵀ, and Bᵀ·Aᵀ = (A·B)ᵀ is C in row-major order.
        with cupy_stream(stream):
            cublas.gemmEx(
                handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, one.ctypes.data,
                b.data.ptr, how.data_type, n, a.data.ptr, how.data_type, n, zero.ctypes.data,
                c.data.ptr, how.data_type, n, how.compute_type, CUBLAS_GEMM_DEFAULT,
            )  # fmt: skip

    def draw() -> tuple[Any, Any]:
        a_host, b_host = (to_storage(rng.standard_normal((n, n), drawn), dtype) for _ in range(2))
        a.set(a_host)
        b.set(b_host)
        return a_host, b_host

    def verify() -> Verification:
        inputs = draw()
        c.set(to_storage(np.full((n, n), np.nan, np.float32), dtype))
        run()
        synchronize()
        a_host, b_host, c_host = (from_storage(x, dtype) for x in (*inputs, c.get()))
        return verify_product(a_host, b_host, c_host, dtype, rng)

    draw()
    return Task(run=run, verify=verify, work=Work(flops=2 * n**3, bytes=3 * n * n * itemsize))


def to_storage(x: Any, dtype: str) -> Any:
    """Random values in the type the device stores; bfloat16 as the upper half of a float32, ties to even."""
    if dtype != "bfloat16":
        return x.astype(ARITHMETIC[dtype].storage)
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def from_storage(x: Any, dtype: str) -> Any:
    """The stored values as floats that NumPy can compute with, exactly."""
    return (x.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else x
