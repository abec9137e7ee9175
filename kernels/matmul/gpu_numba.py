"""C = A·B of float32 or float64 by Numba-CUDA kernels, without tensor cores.

Bound: 2·m·n·k FLOP in the FMA units. Blocks compute tiles of C (`tiled`). A float32 tile is 128×128 and reads
(128 + 128)·k elements: 32 FLOP per byte from L2 or memory, more than the balance of any GPU. Each of the 128 threads of
a block keeps 16×8 sums in registers, so that 24 elements from shared memory (six loads of 16 bytes) feed 128 FMAs. For
float64 a sum takes two registers, so tiles are 128×64 with 8×8 sums per thread. If C would leave much of these tiles
empty, tiles are 64×64 with 64 threads. If C has at most 16 columns or rows, the product is memory bound, and other
kernels read the large matrix once (`thin`). If there are too few blocks for the device, k is split (`split`).

A float32 slice takes 1,110 instructions on compute capabilities 8.0 to 10.0: 1,024 FFMA (0.92), 48 shared-memory loads
of 16 bytes, 4 shared-memory stores, 4 global loads, and others. 255 registers, no spills: two blocks are resident per
multiprocessor. With 8×16 sums per thread, the compiler placed the three operands of 51 FFMA in one of the two register
banks, which delays each of them; with 16×8 sums of none. float64: 512 DFMA of 616 instructions (626 on 10.0); a DFMA
takes two or more issue slots, so that the FP64 units are the bound and not the issue rate.

On an H100 SXM (n = 8,192): float32 72 % of the peak and 93 % of cuBLAS (with 8×16 sums 61 %), float64 66 % of the FMA
units' peak at the power limit. cuBLAS computes float64 in the tensor cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64, int32, int64, numba_stream, void
from accelbench.kernels.lib.gpu.wide_access import lanes
from accelbench.kernels.matmul.adding import define_adding
from accelbench.kernels.matmul.gpu_task import MatmulOperands, gpu_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import ADD_THREADS, adding_blocks, parts_of, slices_each, workspace_bytes
from accelbench.kernels.matmul.thin import (
    MOST,
    THREADS,
    WARP,
    WARPS,
    blocks_at_once,
    define_few_columns,
    define_few_rows,
    rows_of_a_warp,
)
from accelbench.kernels.matmul.tiled import Tiling, define_tiled
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.nvidia.cuda import attribute
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

REAL = {"float32": float32, "float64": float64}
FEWEST_TILED, FEWEST_THIN = 8, 4
"""Minimum slices of a part of k: with fewer, the prologue, epilogue and partial sums of a block cost more than the
split saves."""
WASTE = 1.5
"""Maximum ratio of the area covered by large tiles to the area covered by small tiles; large tiles need fewer
instructions and accesses per area."""


@dataclass(frozen=True)
class Kernel:
    """Kernel with the tile size and the resources of a block."""

    name: str
    multiply: Any
    """Compiled `multiply(a, b, c, m, n, k, each)`."""
    rows: int
    columns: int
    """Columns of C in the tile of a block."""
    depth: int
    """Depth of one slice in k."""
    threads: int
    blocks: int
    """Resident blocks per multiprocessor."""
    fewest: int
    """Minimum number of slices in a part of k."""

    def tiles(self, sizes: Product) -> int:
        """Return the number of tiles that cover C of one matrix."""
        return -(-sizes.m // self.rows) * -(-sizes.n // self.columns)

    def slices(self, sizes: Product) -> int:
        return -(-sizes.k // self.depth)

    def parts(self, sizes: Product, multiprocessors: int) -> int:
        """Return the number of parts of k."""
        tiles = self.tiles(sizes) * sizes.batch
        return parts_of(tiles, self.slices(sizes), self.blocks * multiprocessors, self.fewest)


def compiled(function: Any, threads: int, blocks: int) -> Any:
    """Return the compiled kernel with launch bounds, which limit its registers."""
    return cuda.jit(launch_bounds=(threads, blocks))(function)


def tiled(real: Any, tiling: Tiling) -> Kernel:
    """Return the kernel that computes C in tiles of `tiling`."""
    multiply = compiled(define_tiled(real, tiling), tiling.threads, tiling.blocks)
    rows, columns = tiling.rows, tiling.columns
    name = f"{rows}x{columns}"
    return Kernel(name, multiply, rows, columns, tiling.depth, tiling.threads, tiling.blocks, FEWEST_TILED)


def few_columns(real: Any, columns: int) -> Kernel:
    """Return the kernel for at most `columns` columns of C."""
    rows, depth, blocks = WARPS * rows_of_a_warp(real, columns), WARP * lanes(real), blocks_at_once(columns)
    multiply = compiled(define_few_columns(real, columns), THREADS, blocks)
    return Kernel(f"columns<={columns}", multiply, rows, columns, depth, THREADS, blocks, FEWEST_THIN)


def few_rows(real: Any, rows: int) -> Kernel:
    """Return the kernel for at most `rows` rows of C."""
    columns, depth, blocks = WARP * lanes(real), WARPS * lanes(real), blocks_at_once(rows)
    multiply = compiled(define_few_rows(real, rows), THREADS, blocks)
    return Kernel(f"rows<={rows}", multiply, rows, columns, depth, THREADS, blocks, FEWEST_THIN)


TILINGS = {
    "float32": (Tiling(128, 128, 16, 8, blocks=2), Tiling(64, 64, 8, 8, blocks=6)),
    "float64": (Tiling(128, 64, 8, 8, blocks=2), Tiling(64, 64, 8, 8, blocks=4)),
}
"""Large and small tiles by type."""
TILED = {dtype: tuple(tiled(REAL[dtype], tiling) for tiling in tilings) for dtype, tilings in TILINGS.items()}
FEW_COLUMNS = {dtype: tuple(few_columns(real, size) for size in (4, 8, MOST)) for dtype, real in REAL.items()}
FEW_ROWS = {dtype: tuple(few_rows(real, size) for size in (4, MOST)) for dtype, real in REAL.items()}
ADDING = {dtype: compiled(define_adding(real), ADD_THREADS, 1) for dtype, real in REAL.items()}


def choose(sizes: Product, dtype: str) -> Kernel:
    """Return the kernel for a product of padded sizes."""
    if sizes.n <= MOST:
        return next(kernel for kernel in FEW_COLUMNS[dtype] if sizes.n <= kernel.columns)
    if sizes.m <= MOST:
        return next(kernel for kernel in FEW_ROWS[dtype] if sizes.m <= kernel.rows)
    large, small = TILED[dtype]
    covered, least = (kernel.tiles(sizes) * kernel.rows * kernel.columns for kernel in (large, small))
    return large if covered <= WASTE * least else small


def launch(
    kernel: Kernel, parts: int, sizes: Product, a: Any, b: Any, c: Any, sums: Any = None, stream: Any = 0
) -> None:
    """Enqueue C = A·B for flat arrays; every size is a multiple of 16 bytes of elements, the batch is at most 65,535.

    `sums` is the workspace for partial sums if `parts` > 1.
    """
    each = slices_each(kernel.slices(sizes), parts)
    arguments = (np.int32(sizes.m), np.int32(sizes.n), np.int32(sizes.k), np.int32(each))
    grid = kernel.tiles(sizes), parts, sizes.batch
    kernel.multiply[grid, kernel.threads, stream](a, b, sums if parts > 1 else c, *arguments)
    if parts > 1:
        count = sizes.batch * sizes.m * sizes.n
        adding = ADDING[c.dtype.name][adding_blocks(count, c.dtype.itemsize), ADD_THREADS, stream]
        adding(sums, c, np.int64(count), np.int32(parts))


def workspace(dtype: str, padded: Product) -> int:
    """Return the bytes of the partial sums."""
    parts = choose(padded, dtype).parts(padded, attribute("MultiProcessorCount"))
    return workspace_bytes(parts, padded.batch * padded.m * padded.n, np.dtype(dtype).itemsize)


def prepare(point: Point) -> Task:
    """Return the task of multiplying random normal matrices; Skip for an unsupported type or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in REAL:
        raise Skip(f"the Numba kernel supports {' and '.join(REAL)}, not {dtype}")
    return gpu_task(point, bind, unit_kind="plain", workspace=partial(workspace, dtype))


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product."""
    sizes, kernel = operands.padded, choose(operands.padded, operands.dtype)
    parts = kernel.parts(sizes, attribute("MultiProcessorCount"))
    a, b, c = (cuda.as_cuda_array(array.reshape(-1)) for array in (operands.a, operands.b, operands.c))
    sums = cuda.as_cuda_array(operands.workspace.view(operands.dtype)) if parts > 1 else None

    def run(stream: int) -> None:
        launch(kernel, parts, sizes, a, b, c, sums, numba_stream(stream))

    return run


def device_code() -> list[DeviceKernel]:
    """Return the kernels for each type, with the signatures that `launch` uses."""
    return [
        NumbaKernel(f"matmul numba {dtype} {name}", function, signature, tuned=True, unit=unit)
        for dtype, real in REAL.items()
        for name, function, signature, unit in [
            *(
                (kernel.name, kernel.multiply, void(*[real[::1]] * 3, *[int32] * 4), f"{kernel.depth} of k")
                for kernel in (*TILED[dtype], *FEW_COLUMNS[dtype], *FEW_ROWS[dtype])
            ),
            ("parts", ADDING[dtype], void(real[::1], real[::1], int64, int32), "part"),
        ]
    ]
