"""Split-K of the 16-bit CUDA C++ kernels (`gpu_mma`, `gpu_wgmma`): addition and rounding of the partial sums.

Bound: L2 if the partial sums fit in it, because they have just been written, otherwise device memory: per element of C
4 bytes for each part and 2 for the result. `split` describes the kernel and chooses the number of parts: the 8 warps of
a block add different parts of the same 128 elements, each lane 16 bytes at a time. The sums are float32 and are rounded
once.

Compiled for 8.0 and 9.0: 48 registers, for 10.0: 54, no spills, 4 KiB of shared memory. One iteration of the loop has 8
LDG.128, all issued before the first of 32 FADD, and about 20 other instructions. Share of the bound: not measured yet
on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.tensor_cores import HALF, OPTIONS
from accelbench.kernels.matmul.gpu_task import MatmulOperands
from accelbench.kernels.matmul.split import ADD_THREADS, adding_blocks

ENTRY = "add_parts"
SOURCE = HALF + Path(__file__).with_name("parts.cu").read_text(encoding="utf-8")
"""First part of the source of both kernels: the 16-bit types and the addition of parts."""
PARTS = ("-DPARTS",)
"""Compiler options for a product of parts of k."""
FEWEST_K = 256
"""Minimum depth of a part in k. With it, a block of 128×256 reads 192 KiB of A and B and writes 128 KiB of sums."""
SUM_BYTES = 4
"""Bytes of a float32 sum."""


def options(dtype: str, parts: int) -> tuple[str, ...]:
    """Return the compiler options for a product with `parts` parts of k."""
    return OPTIONS[dtype] + (PARTS if parts > 1 else ())


def words(parts: int) -> tuple[str, ...]:
    """Return the words that identify a kernel for `parts` parts of k in its name."""
    return ("parts",) if parts > 1 else ()


def adder(kernel: Any, operands: MatmulOperands, parts: int) -> Callable[[], None]:
    """Return the function that enqueues C = sum of the parts in the workspace, on CuPy's current stream.

    The function does nothing for one part.
    """
    size = operands.padded
    elements = size.batch * size.m * size.n
    blocks = adding_blocks(elements, SUM_BYTES)
    arguments = (operands.workspace, operands.c, np.int64(elements), np.int32(parts))

    def add() -> None:
        if parts > 1:
            kernel((blocks,), (ADD_THREADS,), arguments)

    return add


def device_code() -> list[DeviceKernel]:
    """Return one kernel per type."""
    return [
        CudaKernel(f"matmul parts {dtype}", ENTRY, SOURCE, flags, tuned=True, unit="8 parts of 4")
        for dtype, flags in OPTIONS.items()
    ]
