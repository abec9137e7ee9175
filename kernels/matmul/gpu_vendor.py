"""C = A·B by NVIDIA's cuBLAS, called through CuPy, and cuBLASLt.

Bound: 2·m·n·k operations, or one pass of each matrix through device memory; the operations dominate for square matrices
with n ≥ 2048 on every GPU, the memory for a matrix times a vector. `float32` is strict (no TF32). `tf32` rounds the
float32 inputs to 10 mantissa bits in the tensor cores. `float16`, `bfloat16` and `fp8` (e4m3, with a bfloat16 result)
accumulate in float32, `int8` in int32. `mxfp8` and `nvfp4` are block-scaled (`block_scaled`), for Blackwell.

On an H100 SXM (n = 8,192): 78 % of the peak in float32; in bfloat16 70 % at the power limit, and 80 % in the first
50 ms, before the clock decreases.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelbench.kernels.lib.block_formats import BLOCK_FORMATS
from accelbench.kernels.lib.gpu.cublas import ARITHMETIC, CUBLAS_DEFAULT_MATH, CUBLAS_GEMM_DEFAULT, CUBLAS_OP_N
from accelbench.kernels.matmul import block_scaled, cublaslt
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import library, require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = {
    "float64": (3, 5), "float32": (3, 5), "float16": (5, 3), "int8": (7, 5), "tf32": (8, 0), "bfloat16": (8, 0),
    "fp8": (8, 9), "mxfp8": (10, 0), "nvfp4": (10, 0),
}  # fmt: skip
"""Lowest compute capability that supports each type."""


def prepare(point: Point) -> Task:
    """Return the task of multiplying random matrices; Skip if the device lacks the type or the memory."""
    dtype = str(point["dtype"])
    require_compute_capability(CAPABILITY[dtype], dtype)
    if dtype in ARITHMETIC:
        return gpu_task(point, bind)
    if dtype in BLOCK_FORMATS:
        return block_scaled.prepare(point)
    return gpu_task(point, cublaslt.bind, b_by_columns=True)


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product by cuBLAS."""
    cublas = library("cupy_backends.cuda.libs.cublas")
    how, product = ARITHMETIC[operands.dtype], operands.product
    a, b, c = operands.a, operands.b, operands.c
    one, zero = np.ones(1, how.scalar), np.zeros(1, how.scalar)
    handle = library("cupy").cuda.Device().cublas_handle
    # float32 must not be computed in TF32, even if CUPY_TF32 is set.
    cublas.setMathMode(handle, CUBLAS_DEFAULT_MATH)

    # cuBLAS is column-major: it reads row-major matrices as transposed, and Bᵀ·Aᵀ = (A·B)ᵀ is C in row-major order.
    def run(stream: int) -> None:
        with cupy_stream(stream):
            if product.batch == 1:
                cublas.gemmEx(
                    handle, CUBLAS_OP_N, CUBLAS_OP_N, product.n, product.m, product.k, one.ctypes.data,
                    b.data.ptr, how.data_type, b.shape[2], a.data.ptr, how.data_type, a.shape[2], zero.ctypes.data,
                    c.data.ptr, how.data_type, c.shape[2], how.compute_type, CUBLAS_GEMM_DEFAULT,
                )  # fmt: skip
            else:
                cublas.gemmStridedBatchedEx(
                    handle, CUBLAS_OP_N, CUBLAS_OP_N, product.n, product.m, product.k, one.ctypes.data,
                    b.data.ptr, how.data_type, b.shape[2], b[0].size, a.data.ptr, how.data_type, a.shape[2], a[0].size,
                    zero.ctypes.data, c.data.ptr, how.data_type, c.shape[2], c[0].size, product.batch,
                    how.compute_type, CUBLAS_GEMM_DEFAULT,
                )  # fmt: skip

    return run
