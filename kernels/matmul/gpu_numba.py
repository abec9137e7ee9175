"""C = A·B by our own tiled Numba-CUDA kernel, in plain FP32 or FP64 arithmetic (no tensor cores).

Bound: 2n³ floating-point operations by the FMA units. A block computes a TILE×TILE part of C and reads 2·TILE·n
elements for it, so device memory (or L2) delivers 2n³/TILE elements: at float32 and TILE=128 that is 32 FLOP per
byte, above what any card's memory needs. Inside a block every thread keeps PER×PER sums in registers, so that 2·PER
elements read from shared memory feed PER² FMAs: 8 → 4 FMAs per read. The next slice is fetched while the present
one is multiplied.

float32: 128×128 tiles, 256 threads of 8×8 sums. float64 has registers twice as wide, so 64×64 tiles, 256 threads of
4×4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32, float64

from kernels.matmul.accuracy import verify_product
from profiling.benchmark import Point, Skip, Task, Verification, Work
from profiling.cuda import numba_stream, require_device_memory, synchronize

DEPTH = 8
"""Columns of A and rows of B in one slice: 32 bytes of a float32 row of A, one memory sector."""
PAD = 4
"""Extra elements per row of the slice of A, which is stored across: its 8 rows then start in 8 groups of banks."""


def define_kernel(real: Any, tile: int, per: int) -> tuple[Any, int, int]:
    """The kernel's Python function `matmul(a, b, c, n)`, its tile and its threads per block."""
    side = tile // per
    threads = side * side
    loads = tile * DEPTH // threads
    shape_a, shape_b = (DEPTH, tile + PAD), (DEPTH, tile)

    def matmul(a: Any, b: Any, c: Any, n: int) -> None:
        slice_a = cuda.shared.array(shape_a, real)
        slice_b = cuda.shared.array(shape_b, real)
        sums = cuda.local.array((per, per), real)
        next_a = cuda.local.array(loads, real)
        next_b = cuda.local.array(loads, real)
        column = cuda.local.array(per, real)
        row = cuda.local.array(per, real)
        thread = cuda.threadIdx.x
        x = thread % side
        y = thread // side
        first_row = cuda.blockIdx.y * tile
        first_column = cuda.blockIdx.x * tile
        zero = real(0)
        for i in range(per):
            for j in range(per):
                sums[i, j] = zero
        # One turn more than there are slices: each turn fetches a slice and multiplies the one before it.
        for k0 in range(0, n + DEPTH, DEPTH):
            for load in range(loads):
                element = thread + load * threads
                i = first_row + element // DEPTH
                k = k0 + element % DEPTH
                next_a[load] = a[i, k] if i < n and k < n else zero
                k = k0 + element // tile
                j = first_column + element % tile
                next_b[load] = b[k, j] if k < n and j < n else zero
            if k0 > 0:
                for k in range(DEPTH):
                    for i in range(per):
                        column[i] = slice_a[k, y * per + i]
                        # Neighbouring threads take neighbouring columns: no bank conflict here, coalesced stores below.
                        row[i] = slice_b[k, x + side * i]
                    for i in range(per):
                        for j in range(per):
                            sums[i, j] += column[i] * row[j]
            cuda.syncthreads()
            for load in range(loads):
                element = thread + load * threads
                slice_a[element % DEPTH, element // DEPTH] = next_a[load]
                slice_b[element // tile, element % tile] = next_b[load]
            cuda.syncthreads()
        for i in range(per):
            for j in range(per):
                out_row = first_row + y * per + i
                out_column = first_column + x + side * j
                if out_row < n and out_column < n:
                    c[out_row, out_column] = sums[i, j]

    return matmul, tile, threads


DEFINITIONS = {"float32": define_kernel(float32, 128, 8), "float64": define_kernel(float64, 64, 4)}
KERNELS = {dtype: cuda.jit(function) for dtype, (function, _, _) in DEFINITIONS.items()}


def launch(dtype: str, a: Any, b: Any, c: Any, stream: Any = 0) -> None:
    """Enqueue C = A·B for n×n device arrays, n ≥ 1, on a Numba stream."""
    n = a.shape[0]
    _, tile, threads = DEFINITIONS[dtype]
    blocks = -(-n // tile)
    KERNELS[dtype][(blocks, blocks), threads, stream](a, b, c, np.int32(n))


def prepare(point: Point) -> Task:
    """Random normal A and B on the device, and C; Skip for a type without a kernel, or too little memory."""
    n, dtype = int(point["n"]), point["dtype"]
    if dtype not in KERNELS:
        raise Skip(f"our kernel multiplies {' and '.join(KERNELS)}, not {dtype}")
    itemsize = np.dtype(dtype).itemsize
    require_device_memory(3 * n * n * itemsize)
    rng = point.rng()
    a, b, c = (cuda.device_array((n, n), dtype) for _ in range(3))

    def run(stream: int = 0) -> None:
        launch(dtype, a, b, c, numba_stream(stream))

    def draw() -> tuple[Any, Any]:
        a_host, b_host = (rng.standard_normal((n, n), dtype=dtype) for _ in range(2))
        a.copy_to_device(a_host)
        b.copy_to_device(b_host)
        return a_host, b_host

    def verify() -> Verification:
        inputs = draw()
        c.copy_to_device(np.full((n, n), np.nan, dtype))
        run()
        synchronize()
        return verify_product(*inputs, c.copy_to_host(), dtype, rng)

    draw()
    return Task(run=run, verify=verify, work=Work(flops=2 * n**3, bytes=3 * n * n * itemsize))
