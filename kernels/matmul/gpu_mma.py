"""C = A·B of 16-bit floats by the tensor cores of each warp (mma.sync, sums in float32), in CUDA C++ through CuPy.

Bound: the tensor cores' operations. An A100 does 1,024 multiply-adds per clock and multiprocessor: 64 clocks for a
warp's 64×64×16. Its operands are 4 KiB of shared memory, 32 clocks at 128 bytes; the block's copies take 12 more
per warp. On Hopper mma.sync reaches only a part of the tensor cores' rate: `gpu_wgmma` is for that card.

A block of 8 warps computes 128×256 of C, each warp 64×64. 32 deep slices of A and B pass through a ring of 4 stages in
shared memory, filled by cp.async three turns ahead; ldmatrix reads them without bank conflicts, because chunks of 16
bytes are exchanged by an exclusive or with the row. A warp's operands of the next 16 are loaded while the present ones
are multiplied. Results are turned in shared memory so that C is stored in full lines of 128 bytes. Tiles are walked in
groups of 8 rows, so that the blocks running at a time share both A and B in L2.

Where C has at most 64 columns, a block of 4 warps computes 256×64, two of them on a multiprocessor. The bound is then
the memory that A comes from: the 16 KiB of a slice take 1,220 clocks of an A100's multiprocessor (2.04 TB/s at 1.41
GHz), its multiplications 512 and its shared memory 416. Where tiles are fewer than the blocks that run at once, k is
split (`split`, `gpu_parts`): 512×8×500,000 has 264 blocks on an H100 instead of 2.

Compiled for 8.0 and 9.0: 252 to 255 registers, for 10.0: 238 to 254, no spills, 96 KiB of dynamic shared memory (80 KiB
for the narrow tile). A turn of the main loop is 64 HMMA.16816, 16 LDSM, 6 LDGSTS and about 50 others; for the narrow
tile 64, 16, 10 and about 80. Its share of the bound is not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.tensor_cores import OPTIONS, WARP
from accelbench.kernels.matmul import gpu_parts
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import parts_of, slices_each, workspace_bytes
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import attribute, library, require_compute_capability
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

CAPABILITY = (8, 0)
ENTRY = "matmul_mma"
SOURCE = gpu_parts.SOURCE + WARP + Path(__file__).with_name("mma.cu").read_text(encoding="utf-8")
SLICE = 32
"""The depth of a stage in k; this and `Tile` are as in mma.cu, where they are derived."""


@dataclass(frozen=True)
class Tile:
    """The part of C that a block computes, and the block's share of a multiprocessor."""

    rows: int
    columns: int
    threads: int
    shared_bytes: int
    blocks: int
    """The blocks that run on a multiprocessor at once."""
    words: tuple[str, ...] = ()
    """The words for the tile in a kernel's name."""
    options: tuple[str, ...] = ()
    """The compiler's options for the tile."""

    def all(self, size: Product) -> int:
        """Return the number of tiles that a product has."""
        return -(-size.m // self.rows) * -(-size.n // self.columns) * size.batch


WIDE = Tile(128, 256, 256, 96 * 1024, blocks=1)
NARROW = Tile(256, 64, 128, 80 * 1024, blocks=2, words=("narrow",), options=("-DNARROW",))


def prepare(point: Point) -> Task:
    """Return the point's task; Skip for a type or a card without these instructions, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in OPTIONS:
        raise Skip(f"our kernel multiplies {' and '.join(OPTIONS)}, not {dtype}")
    require_compute_capability(CAPABILITY, f"mma.sync with {dtype}")
    return gpu_task(point, bind, workspace=workspace)


def tile_for(size: Product) -> Tile:
    """Return the narrow tile where C has no more columns than it, else the wide one."""
    return NARROW if size.n <= NARROW.columns else WIDE


def parts_for(size: Product) -> int:
    """Return into how many parts k is split on the current device."""
    tile = tile_for(size)
    at_once = attribute("MultiProcessorCount") * tile.blocks
    return parts_of(tile.all(size), -(-size.k // SLICE), at_once, gpu_parts.FEWEST_K // SLICE)


def workspace(size: Product) -> int:
    """Return the bytes of the parts' sums."""
    return workspace_bytes(parts_for(size), size.batch * size.m * size.n, gpu_parts.SUM_BYTES)


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product of the whole, padded arrays."""
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
    """Return the kernels: for each type and tile one, and one that multiplies parts of k."""
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
