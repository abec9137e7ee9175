"""BabelStream's copy, mul, add, triad and dot in Numba-CUDA, with 16-byte accesses.

Bound: device memory; 2 or 3 arrays are read or written per execution, for at most 2 FLOP per element. A block of the
elementwise operations computes one contiguous tile, with two coalesced accesses of 16 bytes per thread and array. On an
H100 this reaches 90 to 92 % of the peak bandwidth; resident blocks that loop over the arrays, which writes to four
distant places at a time, reached 85 %. dot loops with four loads of 16 bytes of each input in flight, sums in
registers, then in shared memory, and a second kernel of one block adds the sums of the blocks; without atomics, results
are reproducible bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64, numba_array, numba_stream, void
from accelbench.kernels.lib.gpu.wide_access import lanes, load_wide, store_wide
from accelbench.kernels.stream.gpu_task import make_task
from accelbench.kernels.stream.operations import SCALAR
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import attribute
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

THREADS = 256
TILE = 2
"""Accesses of 16 bytes per thread and array in the tile of a block."""
BLOCKS_PER_MULTIPROCESSOR = 3
"""Blocks of dot per multiprocessor; all are resident with up to 80 registers per thread."""
AHEAD = 4
"""Loads of 16 bytes of each input that a thread of dot has in flight: 48 KiB per input and multiprocessor. By Little's
law, 4.8 TB/s with a latency of 1 µs need 5 MB in flight, 36 KiB on each of 132 multiprocessors."""
REAL = {"float32": float32, "float64": float64}


@cuda.jit(device=True)
def copied(x: Any, y: Any, s: Any) -> Any:
    return x


@cuda.jit(device=True)
def multiplied(x: Any, y: Any, s: Any) -> Any:
    return s * x


@cuda.jit(device=True)
def added(x: Any, y: Any, s: Any) -> Any:
    return x + y


@cuda.jit(device=True)
def triad_of(x: Any, y: Any, s: Any) -> Any:
    return x + s * y


OPERATIONS = {"copy": (copied, False), "mul": (multiplied, False), "add": (added, True), "triad": (triad_of, True)}
"""Function that computes an element of the result, and whether it reads y, by operation."""


def define_elementwise(real: Any, operation: Any, reads_y: bool) -> Any:
    """Return the Python function `elementwise(x, y, s, out)`; without `reads_y` it does not read y."""
    width = lanes(real)
    held = TILE * width

    def elementwise(x: Any, y: Any, s: Any, out: Any) -> None:
        a = cuda.local.array(held, real)
        b = cuda.local.array(held, real)
        vectors = out.shape[0] // width
        first = np.int64(cuda.blockIdx.x) * (TILE * THREADS) + cuda.threadIdx.x
        for k in range(TILE):
            i = first + k * THREADS
            if i < vectors:
                load_wide(a, k * width, x, i * width)
                if reads_y:
                    load_wide(b, k * width, y, i * width)
        for k in range(held):
            a[k] = operation(a[k], b[k], s)
        for k in range(TILE):
            i = first + k * THREADS
            if i < vectors:
                store_wide(out, i * width, a, k * width)
        i = vectors * width + cuda.grid(1)
        if i < out.shape[0]:
            out[i] = operation(x[i], y[i], s)

    return elementwise


def define_dot(real: Any) -> tuple[Any, Any]:
    """Return the Python functions of the two kernels of dot: `partial(x, y, sums)` and `total(sums, out)`."""
    width = lanes(real)
    held = AHEAD * width

    @cuda.jit(device=True)
    def sum_block(lanes: Any, mine: Any) -> Any:
        """Return the sum of `mine` over the threads of the block, in the first thread only."""
        thread = cuda.threadIdx.x
        lanes[thread] = mine
        half = THREADS // 2
        while half > 0:
            cuda.syncthreads()
            if thread < half:
                lanes[thread] += lanes[thread + half]
            half //= 2
        return lanes[0]

    def partial(x: Any, y: Any, sums: Any) -> None:
        lanes = cuda.shared.array(THREADS, real)
        a = cuda.local.array(held, real)
        b = cuda.local.array(held, real)
        step = cuda.gridsize(1)
        vectors = x.shape[0] // width
        mine = zero = real(0)
        i = cuda.grid(1)
        while i < vectors:
            for k in range(held):
                a[k] = b[k] = zero
            for k in range(AHEAD):
                if i + k * step < vectors:
                    load_wide(a, k * width, x, (i + k * step) * width)
                    load_wide(b, k * width, y, (i + k * step) * width)
            for k in range(held):
                mine += a[k] * b[k]
            i += AHEAD * step
        i = vectors * width + cuda.grid(1)
        if i < x.shape[0]:
            mine += x[i] * y[i]
        whole = sum_block(lanes, mine)
        if cuda.threadIdx.x == 0:
            sums[cuda.blockIdx.x] = whole

    def total(sums: Any, out: Any) -> None:
        lanes = cuda.shared.array(THREADS, real)
        mine = real(0)
        for i in range(cuda.threadIdx.x, sums.shape[0], THREADS):
            mine += sums[i]
        whole = sum_block(lanes, mine)
        if cuda.threadIdx.x == 0:
            out[0] = whole

    return partial, total


def compile_kernel(function: Any) -> Any:
    """Return the compiled kernel with launch bounds, which limit its registers."""
    return cuda.jit(launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR))(function)


def tiles(elements: int, dtype: str) -> int:
    """Return the number of blocks of an elementwise operation on arrays of this length."""
    return max(1, -(-(elements // lanes(REAL[dtype])) // (TILE * THREADS)))


ELEMENTWISE = {
    (op, dtype): compile_kernel(define_elementwise(real, operation, reads_y))
    for op, (operation, reads_y) in OPERATIONS.items()
    for dtype, real in REAL.items()
}
DOT = {dtype: tuple(compile_kernel(function) for function in define_dot(real)) for dtype, real in REAL.items()}


def device_code() -> list[DeviceKernel]:
    elementwise: list[DeviceKernel] = [
        NumbaKernel(
            f"stream numba {op} {dtype}",
            kernel,
            void(REAL[dtype][::1], REAL[dtype][::1], REAL[dtype], REAL[dtype][::1]),
            tuned=True,
            unit=f"{TILE} × 16 bytes",
        )
        for (op, dtype), kernel in ELEMENTWISE.items()
    ]
    for dtype, (partial, total) in DOT.items():
        array = REAL[dtype][::1]
        elementwise += [
            NumbaKernel(
                f"stream numba dot {dtype}",
                partial,
                void(array, array, array),
                tuned=True,
                unit=f"{AHEAD} × 16 bytes",
            ),
            NumbaKernel(f"stream numba dot-total {dtype}", total, void(array, array), tuned=True),
        ]
    return elementwise


def prepare(point: Point) -> Task:
    """See `make_task`."""
    op, dtype = str(point["op"]), str(point["dtype"])
    blocks, s = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount"), np.dtype(dtype).type(SCALAR)

    def bind(*arrays: Any) -> Callable[[int], None]:
        x, y, sums, out = map(numba_array, arrays)
        grid = tiles(len(out), dtype)

        def run(stream: int = 0) -> None:
            queue = numba_stream(stream)
            if op == "dot":
                partial, total = DOT[dtype]
                partial[blocks, THREADS, queue](x, y, sums)
                total[1, THREADS, queue](sums, out)
            else:
                ELEMENTWISE[op, dtype][grid, THREADS, queue](x, y, s, out)

        return run

    return make_task(point, bind, blocks=blocks, threads=THREADS)
