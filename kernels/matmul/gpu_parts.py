"""Split-K of our CUDA C++ kernels of 16-bit floats (`gpu_mma`, `gpu_wgmma`): addition and rounding of the parts' sums.

Bound: L2, where the sums have just been written, or device memory: for an element of C, 4 bytes of each part and 2 of
itself. `split` describes the kernel and chooses the number of parts: 8 warps of a block add different parts of the same
128 elements, each lane 16 bytes at a time. The sums are float32 and are rounded once.

Compiled for 8.0 and 9.0: 48 registers, for 10.0: 54, no spills, 4 KiB of shared memory. A turn of the loop is 8
LDG.128, all issued before the first of 32 FADD, and about 20 others. Its share of the bound is not measured yet on a
GPU.
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
"""The beginning of both kernels' sources: the 16-bit types and the addition of parts."""
PARTS = ("-DPARTS",)
"""The compiler's options for a product of parts of k."""
FEWEST_K = 256
"""A part is at least so deep: for it, a block of 128×256 reads 192 KiB of A and B and writes 128 KiB of sums."""
SUM_BYTES = 4
"""The bytes of a float32."""


def options(dtype: str, parts: int) -> tuple[str, ...]:
    """Return the compiler's options for a product that is split into so many parts."""
    return OPTIONS[dtype] + (PARTS if parts > 1 else ())


def words(parts: int) -> tuple[str, ...]:
    """Return the words in the name of a kernel that multiplies so many parts."""
    return ("parts",) if parts > 1 else ()


def adder(kernel: Any, operands: MatmulOperands, parts: int) -> Callable[[], None]:
    """Return the function that adds the parts' sums in the workspace into C, on CuPy's current stream.

    It does nothing for one part.
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
    """Return one kernel for each type."""
    return [
        CudaKernel(f"matmul parts {dtype}", ENTRY, SOURCE, flags, tuned=True, unit="8 parts of 4")
        for dtype, flags in OPTIONS.items()
    ]
