"""C = A·B by our own Numba-CUDA kernels, in plain FP32 or FP64 arithmetic (no tensor cores).

Bound: 2·m·n·k floating-point operations by the FMA units, in tiles of C (`tiled`). A float32 tile is 128×128, and reads
(128 + 128)·k elements for it: 32 FLOP per byte from L2 or memory, above what any card's memory needs. Inside a block
each of 128 threads keeps 8×16 sums in registers, so that 24 elements out of shared memory, six reads of 16 bytes, feed
128 FMAs. float64 has registers twice as wide, hence 128×64 tiles of 8×8 sums. Where C would leave much of such tiles
empty they are 64×64, of 64 threads. Where it has at most 16 columns or rows, memory bounds the product, and kernels of
its own read the large matrix once (`thin`). Where there are too few blocks for the device, k is split (`split`).

Of the 1,110 instructions that a float32 slice takes on compute capabilities 9.0 and 10.0 (1,109 on 8.0), 1,024 are FFMA
(0.92), 48 are 16-byte reads of shared memory, 4 are writes and 4 reads of global memory; 255 registers, none spilled,
let two blocks share a multiprocessor. float64: 512 DFMA of 616 (626 on 10.0), where a DFMA takes two issue slots or
more, so that the units bound it and not the issue.

Measured share: not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64, int32, int64, numba_stream, simulated, void
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
"""The fewest slices of a part of k: with fewer, a block's beginning, end and sums cost more than it saves."""
WASTE = 1.5
"""The area that large tiles may cover per area of small ones: they need fewer instructions and accesses for it."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, and what a block of it takes and computes."""

    name: str
    multiply: Any
    """`multiply(a, b, c, m, n, k, each)`, compiled."""
    rows: int
    columns: int
    """The columns of C in a block's tile."""
    depth: int
    """The depth of one slice in k."""
    threads: int
    blocks: int
    """The blocks that run on a multiprocessor at once."""
    fewest: int
    """The fewest slices that a part of k may have."""

    def tiles(self, sizes: Product) -> int:
        """Return the number of blocks that it takes to cover C of one matrix."""
        return -(-sizes.m // self.rows) * -(-sizes.n // self.columns)

    def slices(self, sizes: Product) -> int:
        return -(-sizes.k // self.depth)

    def parts(self, sizes: Product, multiprocessors: int) -> int:
        """Return into how many parts k is split."""
        tiles = self.tiles(sizes) * sizes.batch
        return parts_of(tiles, self.slices(sizes), self.blocks * multiprocessors, self.fewest)


def compiled(function: Any, threads: int, blocks: int) -> Any:
    """Return the kernel with the registers that so many blocks leave a thread; Numba's simulator knows no registers."""
    bounds = {} if simulated else {"launch_bounds": (threads, blocks)}
    return cuda.jit(**bounds)(function)


def tiled(real: Any, tiling: Tiling) -> Kernel:
    """Return the kernel that computes C in such tiles."""
    multiply = compiled(define_tiled(real, tiling), tiling.threads, tiling.blocks)
    rows, columns = tiling.rows, tiling.columns
    name = f"{rows}x{columns}"
    return Kernel(name, multiply, rows, columns, tiling.depth, tiling.threads, tiling.blocks, FEWEST_TILED)


def few_columns(real: Any, columns: int) -> Kernel:
    """Return the kernel for at most so many columns of C."""
    rows, depth, blocks = WARPS * rows_of_a_warp(real, columns), WARP * lanes(real), blocks_at_once(columns)
    multiply = compiled(define_few_columns(real, columns), THREADS, blocks)
    return Kernel(f"columns<={columns}", multiply, rows, columns, depth, THREADS, blocks, FEWEST_THIN)


def few_rows(real: Any, rows: int) -> Kernel:
    """Return the kernel for at most so many rows of C."""
    columns, depth, blocks = WARP * lanes(real), WARPS * lanes(real), blocks_at_once(rows)
    multiply = compiled(define_few_rows(real, rows), THREADS, blocks)
    return Kernel(f"rows<={rows}", multiply, rows, columns, depth, THREADS, blocks, FEWEST_THIN)


TILINGS = {
    "float32": (Tiling(128, 128, 8, 16, blocks=2), Tiling(64, 64, 8, 8, blocks=6)),
    "float64": (Tiling(128, 64, 8, 8, blocks=2), Tiling(64, 64, 8, 8, blocks=4)),
}
"""The large tiles and the small ones."""
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

    `sums` has room for the parts' sums where there are several.
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
    """Return the bytes for the parts' sums."""
    parts = choose(padded, dtype).parts(padded, attribute("MultiProcessorCount"))
    return workspace_bytes(parts, padded.batch * padded.m * padded.n, np.dtype(dtype).itemsize)


def prepare(point: Point) -> Task:
    """Prepare random normal A and B on the device, and C; Skip for a type without a kernel, or too little memory."""
    dtype = str(point["dtype"])
    if dtype not in REAL:
        raise Skip(f"our kernel multiplies {' and '.join(REAL)}, not {dtype}")
    return gpu_task(point, bind, unit_kind="plain", workspace=partial(workspace, dtype))


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return the function that enqueues the product on a stream."""
    sizes, kernel = operands.padded, choose(operands.padded, operands.dtype)
    parts = kernel.parts(sizes, attribute("MultiProcessorCount"))
    a, b, c = (cuda.as_cuda_array(array.reshape(-1)) for array in (operands.a, operands.b, operands.c))
    sums = cuda.as_cuda_array(operands.workspace.view(operands.dtype)) if parts > 1 else None

    def run(stream: int) -> None:
        launch(kernel, parts, sizes, a, b, c, sums, numba_stream(stream))

    return run


def device_code() -> list[DeviceKernel]:
    """Return the kernels for each type, as `launch` passes them flat arrays and sizes."""
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
