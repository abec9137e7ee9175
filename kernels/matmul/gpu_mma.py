"""C = A·B of 16-bit floats by the tensor cores of each warp (mma.sync, sums in float32), in CUDA C++ through CuPy.

Bound: the tensor cores' operations. An A100 does 1,024 multiply-adds per clock and multiprocessor: 64 clocks for a
warp's 64×64×16. Its operands are 4 KiB of shared memory, 32 clocks at 128 bytes; the block's copies take 12 more
per warp. On Hopper mma.sync reaches only a part of the tensor cores' rate: `gpu_wgmma` is for that card.

A block of 8 warps computes 128×256 of C, each warp 64×64. 32 deep slices of A and B pass through a ring of 4 stages in
shared memory, filled by cp.async three turns ahead; ldmatrix reads them without bank conflicts, because chunks of 16
bytes are exchanged by an exclusive or with the row. A warp's operands of the next 16 are loaded while the present ones
are multiplied. Results are turned in shared memory so that C is stored in full lines of 128 bytes. Tiles are walked in
groups of 8 rows, so that the blocks running at a time share both A and B in L2.

Compiled for 8.0 and 9.0: 254 registers, for 10.0: 238, no spills, 96 KiB of dynamic shared memory. A turn of the main
loop is 64 HMMA.16816, 16 LDSM, 6 LDGSTS and about 50 others. Its share of the bound is not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from kernels.device_code import CudaKernel, DeviceKernel
from kernels.matmul.gpu_task import Operands, gpu_task
from profiling.benchmark import Point, Skip, Task
from profiling.cuda import cupy_stream, library, require_compute_capability

CAPABILITY = (8, 0)
ENTRY = "matmul_mma"
SOURCE = Path(__file__).with_name("mma.cu").read_text(encoding="utf-8")
OPTIONS = {"float16": ("--std=c++17",), "bfloat16": ("--std=c++17", "-DBFLOAT16")}

# As in mma.cu, where they are derived.
TILE_M, TILE_N = 128, 256
THREADS = 256
SHARED_BYTES = 96 * 1024


def prepare(point: Point) -> Task:
    """The task of the point's product; Skip for a type or a card without these instructions, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in OPTIONS:
        raise Skip(f"our kernel multiplies {' and '.join(OPTIONS)}, not {dtype}")
    require_compute_capability(CAPABILITY, f"mma.sync with {dtype}")
    return gpu_task(point, bind)


def bind(operands: Operands) -> Callable[[int], None]:
    """`run(stream)`, which enqueues the product of the whole, padded arrays."""
    module = library("cupy").RawModule(code=SOURCE, options=OPTIONS[operands.dtype])
    kernel = module.get_function(ENTRY)
    kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
    size = operands.padded
    blocks = -(-size.m // TILE_M) * -(-size.n // TILE_N) * size.batch
    arguments = (operands.a, operands.b, operands.c, np.int32(size.m), np.int32(size.n), np.int32(size.k))

    def run(stream: int) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (THREADS,), arguments, shared_mem=SHARED_BYTES)

    return run


def device_code() -> list[DeviceKernel]:
    """One kernel for each type."""
    return [
        CudaKernel(
            f"matmul mma {dtype}",
            ENTRY,
            SOURCE,
            options,
            tuned=True,
            unit="128x256x32",
            shared_bytes=SHARED_BYTES,
            capability=CAPABILITY,
        )
        for dtype, options in OPTIONS.items()
    ]
