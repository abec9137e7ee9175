"""Cross-entropy and gradient in Triton, as its users write it: a program per row, online softmax over blocks of a row.

Bound: device memory. The second pass over a row, which writes the gradient, hits L2 if it holds the rows of all
resident blocks; a second read from memory is not counted. The width is a compile-time constant: rows of a multiple of 4
elements are accessed 16 bytes at a time, others 4. Compiled by Triton 3.9: 40–78 registers, no spills. Not measured yet
on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.array_task import array_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import bind_triton, require_triton, row_block, row_warps
from accelbench.kernels.softmax_xent.reference import problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

MOST = 4096
"""Elements of a row per iteration, 16 per thread; rows of the benchmark waste at most 6 % of the last one."""
LISTED = (32_000, 50_257)
"""Widths in `device_code`."""


def kernel_for(width: int) -> TritonKernel:
    """Return the kernel for rows of `width` scores."""
    block = row_block(width, MOST)
    return TritonKernel(
        f"softmax-xent triton {width}",
        "accelbench.kernels.softmax_xent.triton_cross_entropy",
        "cross_entropy_triton",
        arguments=(
            ("scores", "*fp32"), ("labels", "*i32"), ("losses", "*fp32"), ("gradient", "*fp32"), ("share", "fp32"),
        ),
        constants=(("WIDTH", width), ("BLOCK", block)),
        warps=row_warps(block),
        unit=f"{block} elements",
    )  # fmt: skip


def device_code() -> list[DeviceKernel]:
    return [kernel_for(width) for width in LISTED]


def prepare(point: Point) -> Task:
    """Return the point's task; Skip without Triton, a supported device, or enough memory."""
    require_triton()
    width = int(point["vocabulary"])

    def bind(scores: Any, labels: Any, losses: Any, gradient: Any) -> Callable[[int], None]:
        rows = len(labels)
        return bind_triton(kernel_for(width), (rows,), (scores, labels, losses, gradient, 1 / rows))

    return array_task(point, problem(point), bind)
