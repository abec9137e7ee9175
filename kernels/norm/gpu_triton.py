"""Root-mean-square norm in Triton, as its users write it: a program per row, which stays in registers.

Bound: device memory; every element is read once and written once. Rows of more than `MOST` elements are read twice, the
second time from a cache. The width is a compile-time constant: rows of a multiple of 4 elements are accessed 16 bytes
at a time, others 4. Compiled by Triton 3.9: 30–44 registers for rows of at most 8,192, no spills. Not measured yet on a
GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.array_task import array_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import bind_triton, require_triton, row_block, row_warps
from accelbench.kernels.norm.reference import EPSILON, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

MOST = 16384
"""Elements of a row that a block holds in registers, 32 per thread."""
LISTED = (1001, 1024, 8192, 1 << 17)
"""Widths in `device_code`: an odd one, the benchmark's, and one that exceeds `MOST`."""


def kernel_for(width: int) -> TritonKernel:
    """Return the kernel for rows of `width` elements."""
    block = row_block(width, MOST)
    return TritonKernel(
        f"norm triton {width}",
        "accelbench.kernels.norm.triton_norm",
        "norm_triton",
        arguments=(("x", "*fp32"), ("scale", "*fp32"), ("out", "*fp32")),
        constants=(("WIDTH", width), ("BLOCK", block), ("EPSILON", EPSILON)),
        warps=row_warps(block),
        unit=f"{block} elements",
    )


def device_code() -> list[DeviceKernel]:
    return [kernel_for(width) for width in LISTED]


def prepare(point: Point) -> Task:
    """Return the point's task; Skip without Triton, a supported device, or enough memory."""
    require_triton()

    def bind(x: Any, scale: Any, out: Any) -> Callable[[int], None]:
        width = len(scale)
        return bind_triton(kernel_for(width), (len(x) // width,), (x, scale, out))

    return array_task(point, problem(point), bind)
