"""C = A·B of float16 or bfloat16 by warp-level mma.sync with float32 sums, in CUDA C++ through CuPy.

Bound: tensor-core FLOP. An A100 multiprocessor does 1,024 multiply-adds per clock: 64 clocks for a warp's 64×64×16. Its
operands are 4 KiB from shared memory: 32 clocks at 128 bytes per clock, and 12 more per warp for the block's copies. On
Hopper mma.sync reaches only a part of the tensor-core peak; `gpu_wgmma` is the kernel for Hopper.

A block of 8 warps computes a 128×256 tile of C, each warp 64×64. Slices of A and B, 32 deep in k, pass through a ring
of 4 stages in shared memory, which cp.async fills three iterations ahead. The 16-byte chunks are swizzled by an
exclusive or with the row, so that ldmatrix reads them without bank conflicts. A warp loads the operands of the next 16
of k while it multiplies the current ones. Results are rearranged in shared memory, so that C is stored in full lines of
128 bytes. Tiles are scheduled in groups of 8 rows, so that concurrent blocks share both A and B in L2.

If C has at most 64 columns, a block of 4 warps computes a 256×64 tile, and two blocks are resident per multiprocessor.
The bound is then the bandwidth with which A is read: on an A100 multiprocessor (2.04 TB/s at 1.41 GHz) the 16 KiB of a
slice take 1,220 clocks, its mma 512 and its shared memory 416. If there are fewer tiles than resident blocks, k is
split (`split`, `gpu_parts`): 512×8×500,000 has 264 blocks on an H100 instead of 2.

Compiled for 8.0 and 9.0: 252–255 registers, for 10.0: 238–254, no spills; dynamic shared memory 96 KiB, 80 KiB for the
narrow tile. One iteration of the main loop has 64 HMMA.16816, 16 LDSM, 6 LDGSTS and about 50 other instructions; for
the narrow tile 64, 16, 10 and about 80. On an H100 SXM: 452 TFLOP/s in bfloat16, 46 % of the peak, which
only wgmma reaches, and 65 % of cuBLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.residency import resident_blocks
from accelbench.kernels.lib.gpu.tensor_cores import OPTIONS, WARP
from accelbench.kernels.matmul import gpu_parts
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import parts_of, slices_each, workspace_bytes
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import library, require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = (8, 0)
ENTRY = "matmul_mma"
SOURCE = gpu_parts.SOURCE + WARP + Path(__file__).with_name("mma.cu").read_text(encoding="utf-8")
SLICE = 32
"""Depth of a stage in k; this and `Tile` must agree with mma.cu."""


@dataclass(frozen=True)
class Tile:
    """Tile of C computed by a block, and the occupancy of the block."""

    rows: int
    columns: int
    threads: int
    shared_bytes: int
    blocks: int
    """Maximum number of resident blocks per multiprocessor."""
    words: tuple[str, ...] = ()
    """Words that identify the tile in the name of a kernel."""
    options: tuple[str, ...] = ()
    """Compiler options for the tile."""

    def all(self, size: Product) -> int:
        """Return the number of tiles of a product."""
        return -(-size.m // self.rows) * -(-size.n // self.columns) * size.batch


WIDE = Tile(128, 256, 256, 96 * 1024, blocks=1)
NARROW = Tile(256, 64, 128, 80 * 1024, blocks=2, words=("narrow",), options=("-DNARROW",))


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for an unsupported type or device, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in OPTIONS:
        raise Skip(f"the mma kernel supports {' and '.join(OPTIONS)}, not {dtype}")
    require_compute_capability(CAPABILITY, f"mma.sync with {dtype}")
    return gpu_task(point, bind, workspace=workspace)


def tile_for(size: Product) -> Tile:
    """Return the narrow tile if C has at most as many columns, otherwise the wide one."""
    return NARROW if size.n <= NARROW.columns else WIDE


def parts_for(size: Product) -> int:
    """Return the number of parts of k on the current device."""
    tile = tile_for(size)
    at_once = resident_blocks(tile.threads, tile.blocks, tile.shared_bytes)
    return parts_of(tile.all(size), -(-size.k // SLICE), at_once, gpu_parts.FEWEST_K // SLICE)


def workspace(size: Product) -> int:
    """Return the bytes of the partial sums."""
    return workspace_bytes(parts_for(size), size.batch * size.m * size.n, gpu_parts.SUM_BYTES)


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product of the padded arrays."""
    size = operands.padded
    tile, parts = tile_for(size), parts_for(size)
    options = gpu_parts.options(operands.dtype, parts) + tile.options
    module = library("cupy").RawModule(code=SOURCE, options=options)
    kernel = module.get_function(ENTRY)
    kernel.max_dynamic_shared_size_bytes = tile.shared_bytes
    add = gpu_parts.adder(module.get_function(gpu_parts.ENTRY), operands, parts)
    blocks = tile.all(size) * parts
    depth = slices_each(-(-size.k // SLICE), parts) * SLICE
    result = operands.workspace if parts > 1 else operands.c
    sizes = (np.int32(extent) for extent in (size.m, size.n, size.k, depth))
    arguments = (operands.a, operands.b, result, *sizes)

    def run(stream: int) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (tile.threads,), arguments, shared_mem=tile.shared_bytes)
            add()

    return run


def device_code() -> list[DeviceKernel]:
    """Return the kernels: for each type and tile one for all of k, and one for a part of k."""
    return [
        CudaKernel(
            " ".join(("matmul mma", dtype, *tile.words, *gpu_parts.words(parts))),
            ENTRY,
            SOURCE,
            gpu_parts.options(dtype, parts) + tile.options,
            tuned=True,
            unit=f"{tile.rows}x{tile.columns}x{SLICE}",
            shared_bytes=tile.shared_bytes,
            capability=CAPABILITY,
        )
        for dtype in OPTIONS
        for tile in (WIDE, NARROW)
        for parts in (1, 2)
    ]
