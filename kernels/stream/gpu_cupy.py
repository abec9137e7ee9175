"""BabelStream's copy, mul, add, triad and dot in CUDA C++ through CuPy, with 16-byte accesses.

Bound: device memory; 2 or 3 arrays are read or written per execution, for at most 2 FLOP per element. A block of the
elementwise operations computes one contiguous tile, with two coalesced accesses of 16 bytes per thread and array
(compared with other forms in `gpu_numba`). dot loops with four loads of 16 bytes of each input in flight, sums in
registers, then in shared memory, and a second kernel of one block adds the sums of the blocks; without atomics, results
are reproducible bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.arrays import ACCESS_BYTES
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.stream.gpu_task import make_task
from accelbench.kernels.stream.operations import SCALAR
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import attribute, cupy_library, cupy_stream
from accelbench.profiling.records.point import Point

THREADS = 256
TILE = 2
"""Accesses of 16 bytes per thread and array in the tile of a block."""
BLOCKS_PER_MULTIPROCESSOR = 4
"""Blocks of dot per multiprocessor; all are resident with up to 64 registers per thread."""
AHEAD = 4
"""Loads of 16 bytes of each input that a thread of dot has in flight: 64 KiB per input and multiprocessor. By Little's
law, 4.8 TB/s with a latency of 1 µs need 5 MB in flight, 36 KiB on each of 132 multiprocessors."""

SOURCE = r"""
#ifdef USE_DOUBLE
typedef double real;
#define LANES 2
#else
typedef float real;
#define LANES 4
#endif

struct __align__(16) vec { real lane[LANES]; };

// The size of the arrays is a multiple of 16 bytes, that is of a vector.
#define ELEMENTWISE(NAME, READS_Y, EXPRESSION)                                                                 \
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                  \
NAME(const vec* __restrict__ x, const vec* __restrict__ y, real s, vec* __restrict__ out, long long vectors) { \
    const long long first = (long long)blockIdx.x * TILE * THREADS + threadIdx.x;                              \
    vec as[TILE], bs[TILE];                                                                                    \
    _Pragma("unroll")                                                                                          \
    for (int k = 0; k < TILE; ++k)                                                                             \
        if (first + k * THREADS < vectors) {                                                                   \
            as[k] = x[first + k * THREADS];                                                                    \
            if (READS_Y) bs[k] = y[first + k * THREADS];                                                       \
        }                                                                                                      \
    _Pragma("unroll")                                                                                          \
    for (int k = 0; k < TILE; ++k)                                                                             \
        for (int lane = 0; lane < LANES; ++lane) {                                                             \
            const real a = as[k].lane[lane], b = bs[k].lane[lane];                                             \
            as[k].lane[lane] = EXPRESSION;                                                                     \
        }                                                                                                      \
    _Pragma("unroll")                                                                                          \
    for (int k = 0; k < TILE; ++k)                                                                             \
        if (first + k * THREADS < vectors) out[first + k * THREADS] = as[k];                                   \
}

ELEMENTWISE(copy, false, a)
ELEMENTWISE(mul, false, s * a)
ELEMENTWISE(add, true, a + b)
ELEMENTWISE(triad, true, a + s * b)

__device__ void sum_block(real mine, real* result) {
    __shared__ real lanes[THREADS];
    lanes[threadIdx.x] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *result = lanes[0];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
dot_partial(const vec* __restrict__ x, const vec* __restrict__ y, real* sums, long long vectors) {
    const long long step = (long long)gridDim.x * THREADS;
    real mine = 0;
    #pragma unroll 1
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < vectors; i += AHEAD * step) {
        vec a[AHEAD] = {}, b[AHEAD] = {};
        #pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            if (i + k * step < vectors) a[k] = x[i + k * step], b[k] = y[i + k * step];
        #pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            #pragma unroll
            for (int lane = 0; lane < LANES; ++lane) mine += a[k].lane[lane] * b[k].lane[lane];
    }
    sum_block(mine, sums + blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(THREADS)
dot_total(const real* sums, int count, real* out) {
    real mine = 0;
    for (int i = threadIdx.x; i < count; i += THREADS) mine += sums[i];
    sum_block(mine, out);
}
"""


def options(dtype: str) -> tuple[str, ...]:
    """Return the NVRTC options for SOURCE and a type."""
    sizes = f"-DTHREADS={THREADS}", f"-DBLOCKS={BLOCKS_PER_MULTIPROCESSOR}", f"-DAHEAD={AHEAD}", f"-DTILE={TILE}"
    return ("--std=c++17", *sizes, *(("-DUSE_DOUBLE",) if dtype == "float64" else ()))


def tiles(vectors: int) -> int:
    """Return the number of blocks of an elementwise operation on arrays of `vectors` times 16 bytes."""
    return -(-vectors // (TILE * THREADS))


def device_code() -> list[DeviceKernel]:
    entries = {
        "copy": "copy",
        "mul": "mul",
        "add": "add",
        "triad": "triad",
        "dot": "dot_partial",
        "dot-total": "dot_total",
    }
    return [
        CudaKernel(
            f"stream cupy {name} {dtype}",
            entry,
            SOURCE,
            options(dtype),
            tuned=True,
            unit=f"{AHEAD if name == 'dot' else TILE} × 16 bytes",
        )
        for dtype in ("float32", "float64")
        for name, entry in entries.items()
    ]


def prepare(point: Point) -> Task:
    """See `make_task`."""
    cupy = cupy_library()
    op, dtype = str(point["op"]), str(point["dtype"])
    blocks, s = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount"), np.dtype(dtype).type(SCALAR)
    module = cupy.RawModule(code=SOURCE, options=options(dtype))
    kernels = [module.get_function(name) for name in (("dot_partial", "dot_total") if op == "dot" else (op,))]

    def bind(x: Any, y: Any, sums: Any, out: Any) -> Callable[[int], None]:
        vectors = x.nbytes // ACCESS_BYTES
        grid, count = (tiles(vectors),), np.int64(vectors)

        def run(stream: int = 0) -> None:
            with cupy_stream(stream):
                if op == "dot":
                    partial, total = kernels
                    partial((blocks,), (THREADS,), (x, y, sums, count))
                    total((1,), (THREADS,), (sums, np.int32(blocks), out))
                else:
                    kernels[0](grid, (THREADS,), (x, y, s, out, count))

        return run

    return make_task(point, bind, blocks=blocks, threads=THREADS)
