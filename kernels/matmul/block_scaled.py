"""C = A·B of block-scaled types by cuBLASLt: quantized matrices with their scales on the device.

A and B are standard normal and are rounded to the type on the host. C is bfloat16, sums are float32. The check compares
C with the product of the exact values of A and B, scales included. It has not run on a GPU.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes

from accelbench.kernels.lib.block_formats import (
    BLOCK_FORMATS,
    BlockScaled,
    quantize,
    stacked,
    stored_scales_bytes,
)
from accelbench.kernels.lib.formats import FORMATS, by_all_cpus
from accelbench.kernels.matmul import cublaslt
from accelbench.kernels.matmul.gpu_task import Values, draw_padded, product_task, round_up
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_library, require_device_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.work import Work

RESULT = "bfloat16"
MULTIPLE = 32
"""Sizes are padded to a multiple: one block of mxfp8, two of nvfp4, and 16 bytes of the narrowest element, which
cuBLASLt requires of its narrow types."""
ROWS_AT_ONCE = 256
"""Rows that one thread quantizes at a time."""


def prepare(point: Point) -> Task:
    """Return the task of multiplying random matrices; Skip with an old cuBLASLt, for a batch, or without the memory."""
    product, dtype = Product.of(point), str(point["dtype"])
    if product.batch > 1:
        raise Skip(f"{dtype} is measured for one product, not for a batch: cuBLASLt documents no scales of a batch")
    kind, itemsize = BLOCK_FORMATS[dtype], FORMATS[RESULT].result_itemsize
    if not hasattr(ml_dtypes, kind.element):
        raise Skip(f"{dtype} needs ml_dtypes 0.5 or newer: pip install --upgrade ml_dtypes")
    cupy = cupy_library()
    cublaslt.require_block_scaled(dtype)
    m, n, k = (round_up(size, MULTIPLE) for size in (product.m, product.n, product.k))
    require_device_memory(_bytes(Product(m, n, k), dtype, itemsize))
    rng = point.rng()
    matrices = [cupy.empty((1, rows, k // kind.per_byte), "uint8") for rows in (m, n)]
    scales = [cupy.empty(stored_scales_bytes(rows, k, dtype), "uint8") for rows in (m, n)]
    c = cupy.empty((1, m, n), FORMATS[RESULT].storage)
    run_on = cublaslt.bind_block_scaled(dtype, Product(m, n, k), matrices[0], matrices[1], (scales[0], scales[1]), c)

    def load() -> Values:
        used = []
        for matrix, own_scales, rows in zip(matrices, scales, (product.m, product.n), strict=True):
            quantized = _quantized(draw_padded(rng, (1, matrix.shape[1], k), "float32", rows, product.k)[0], dtype)
            matrix.set(quantized.stored_elements()[None])
            own_scales.set(quantized.stored_scales())
            used.append(quantized[:rows])
        a, b = used
        return lambda: (a.values()[None, :, : product.k], b.values().T[None, : product.k])

    work = Work(product.flops, _bytes(product, dtype, itemsize))
    return product_task(product, dtype, run_on, load, c, RESULT, work, rng, cupy.empty(0, "uint8"))


def _quantized(x: Any, dtype: str) -> BlockScaled:
    begins = range(0, len(x), ROWS_AT_ONCE)
    return stacked(by_all_cpus(lambda begin: quantize(x[begin : begin + ROWS_AT_ONCE], dtype), begins))


def _bytes(product: Product, dtype: str, itemsize: int) -> int:
    """Return the bytes of A and B with their scales read once, and of C, with `itemsize` bytes each, written once."""
    read = (product.m + product.n) * product.k * BLOCK_FORMATS[dtype].bytes_each
    return round(read) + product.m * product.n * itemsize
