"""Attention in plain CuPy: both products by cuBLAS, the softmax by array operations.

Bound: tensor-core FLOP. In practice device memory dominates: the float32 scores of a block of heads are read or written
ten times, and are rounded to 16 bits for the second product. CuPy has no bfloat16. Not measured yet on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.attention.gpu_task import AttentionOperands, gpu_task
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.gpu.cublas import ARITHMETIC, CUBLAS_GEMM_DEFAULT, CUBLAS_OP_N
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import library, require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

DTYPE = "float16"
CAPABILITY = (5, 3)
BLOCK = 1 << 28
"""Scores of a block of heads: 1 GiB of float32, enough to occupy all multiprocessors of every GPU."""
CUBLAS_OP_T = 1


def scratch_bytes(size: Attention) -> int:
    """Return the bytes of the scores, the weights and the mask of a block of heads."""
    return size.sequence**2 * (6 * size.heads_within(BLOCK) + 4 * size.causal)


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for a type that CuPy lacks, or if there is too little memory."""
    if point["dtype"] != DTYPE:
        raise Skip(f"CuPy's array operations support {DTYPE}, not {point['dtype']}")
    require_compute_capability(CAPABILITY, DTYPE)
    return gpu_task(point, bind, scratch_bytes)


def bind(operands: AttentionOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the attention, one block of heads after the other."""
    cupy, cublas = library("cupy"), library("cupy_backends.cuda.libs.cublas")
    size, handle = operands.size, cupy.cuda.Device().cublas_handle
    n, d, step = size.sequence, size.head, size.heads_within(BLOCK)
    half, single = ARITHMETIC["float16"], ARITHMETIC["float32"]
    scores = cupy.empty((step, n, n), "float32")
    rounded = cupy.empty((step, n, n), "float16")
    mask = cupy.triu(cupy.full((n, n), -np.inf, "float32"), k=1) if size.causal else None
    scale, one, zero = (np.full(1, number, "float32") for number in (1 / math.sqrt(d), 1, 0))

    def multiply(heads: int, sizes: tuple[int, ...], factor: Any, *matrices: tuple[Any, int, int, int]) -> None:
        """Enqueue C = factor·A·B of column-major matrices, each given as (array, operation or type, stride, rows)."""
        (a, operation, stride_a, rows_a), (b, _, stride_b, rows_b), (c, kind, stride_c, rows_c) = matrices
        cublas.gemmStridedBatchedEx(
            handle, operation, CUBLAS_OP_N, *sizes, factor.ctypes.data, a.data.ptr, half.data_type, rows_a, stride_a,
            b.data.ptr, half.data_type, rows_b, stride_b, zero.ctypes.data, c.data.ptr, kind, rows_c, stride_c, heads,
            half.compute_type, CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip

    def run(stream: int) -> None:
        with cupy_stream(stream):
            for first in range(0, size.heads, step):
                q, k, v, o = (x[first : first + step] for x in (operands.q, operands.k, operands.v, operands.o))
                heads = len(q)
                weights = scores[:heads]
                # cuBLAS is column-major: it reads K as Kᵀ and V as Vᵀ, and computes Sᵀ = K·Qᵀ and Oᵀ = Vᵀ·Pᵀ.
                turned = k, CUBLAS_OP_T, n * d, d
                multiply(
                    heads, (n, n, d), scale, turned, (q, CUBLAS_OP_N, n * d, d), (weights, single.data_type, n * n, n)
                )
                if mask is not None:
                    weights += mask
                weights -= weights.max(axis=2, keepdims=True)
                cupy.exp(weights, out=weights)
                weights /= weights.sum(axis=2, keepdims=True)
                rounded[:heads] = weights
                straight = v, CUBLAS_OP_N, n * d, d
                multiply(
                    heads, (d, n, n), one, straight, (rounded, CUBLAS_OP_N, n * n, n), (o, half.data_type, n * d, d)
                )

    return run
