"""C = A·B by NVIDIA's cuBLAS, called through CuPy, and cuBLASLt: the vendor's rate.

Bound: 2·m·n·k operations, and each element once through device memory; for square matrices of n ≥ 2048 the operations
dominate on every card, for a matrix times a vector the memory. `float32` is strict (no TF32); `tf32` rounds the same
float32 inputs to 10 bits inside the tensor cores; `float16` and `bfloat16` accumulate in float32, and so does `fp8`
(e4m3), with a bfloat16 result; `int8` accumulates in int32.

Measured share: not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelbench.kernels.lib.gpu.cublas import ARITHMETIC, CUBLAS_DEFAULT_MATH, CUBLAS_GEMM_DEFAULT, CUBLAS_OP_N
from accelbench.kernels.matmul import cublaslt
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import library, require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = {
    "float64": (3, 5), "float32": (3, 5), "float16": (5, 3), "int8": (7, 5), "tf32": (8, 0), "bfloat16": (8, 0),
    "fp8": (8, 9),
}  # fmt: skip
"""Lowest compute capability with each type."""


def prepare(point: Point) -> Task:
    """Prepare random A and B on the device, and C; Skip where the device lacks the type or the memory."""
    dtype = str(point["dtype"])
    require_compute_capability(CAPABILITY[dtype], dtype)
    if dtype in ARITHMETIC:
        return gpu_task(point, bind)
    return gpu_task(point, cublaslt.bind, b_by_columns=True)


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return the function that enqueues the product on a stream, by cuBLAS."""
    cublas = library("cupy_backends.cuda.libs.cublas")
    how, product = ARITHMETIC[operands.dtype], operands.product
    a, b, c = operands.a, operands.b, operands.c
    one, zero = np.ones(1, how.scalar), np.zeros(1, how.scalar)
    handle = library("cupy").cuda.Device().cublas_handle
    # CuPy's default, made certain: float32 must not be computed in TF32, whatever CUPY_TF32 says.
    cublas.setMathMode(handle, CUBLAS_DEFAULT_MATH)

    # cuBLAS is column-major: it reads row-major A as Aᵀ, and Bᵀ·Aᵀ = (A·B)ᵀ is C in row-major order.
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
