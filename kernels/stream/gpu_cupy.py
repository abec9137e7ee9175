"""copy, mul, add, triad and dot in CUDA C++ through CuPy, with 16-byte accesses.

Bound: device memory; 2 or 3 arrays pass through it per execution, for at most 2 FLOP per element. A thread reads
and writes 16 bytes at once, four independent pieces before it goes on, so that enough of them are under way. dot
sums in registers, then in shared memory, then a second kernel of one block sums the blocks: no atomics, so the same
inputs give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.stream.gpu_arrays import array_length, draw, longest_chain, verify_dot, verify_elements
from kernels.stream.operations import SCALAR, work_of
from profiling.benchmark import Point, Task, Verification
from profiling.cuda import attribute, cupy_stream, library, synchronize

THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8
"""8 × 256 threads fill the 2,048 that a multiprocessor holds."""
VECTOR_BYTES = 16

SOURCE = r"""
#define THREADS 256
#ifdef USE_DOUBLE
typedef double real;
#define LANES 2
#else
typedef float real;
#define LANES 4
#endif

struct __align__(16) vec { real lane[LANES]; };

// The arrays are whole numbers of vectors: their size is a multiple of 16 bytes.
#define ELEMENTWISE(NAME, EXPRESSION)                                                          \
extern "C" __global__ void __launch_bounds__(THREADS)                                          \
NAME(const vec* __restrict__ x, const vec* __restrict__ y, real s, vec* __restrict__ out, long long vectors) {  \
    const long long step = (long long)gridDim.x * THREADS;                                     \
    _Pragma("unroll 4")                                                                        \
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < vectors; i += step) {\
        vec r;                                                                                 \
        const vec a = x[i];                                                                    \
        _Pragma("unroll")                                                                      \
        for (int k = 0; k < LANES; ++k) r.lane[k] = EXPRESSION;                                \
        out[i] = r;                                                                            \
    }                                                                                          \
}

ELEMENTWISE(copy, a.lane[k])
ELEMENTWISE(mul, s * a.lane[k])
ELEMENTWISE(add, a.lane[k] + y[i].lane[k])
ELEMENTWISE(triad, a.lane[k] + s * y[i].lane[k])

__device__ void sum_block(real mine, real* result) {
    __shared__ real lanes[THREADS];
    lanes[threadIdx.x] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *result = lanes[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
dot_partial(const vec* __restrict__ x, const vec* __restrict__ y, real* sums, long long vectors) {
    const long long step = (long long)gridDim.x * THREADS;
    real mine = 0;
    #pragma unroll 4
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < vectors; i += step) {
        const vec a = x[i], b = y[i];
        #pragma unroll
        for (int k = 0; k < LANES; ++k) mine += a.lane[k] * b.lane[k];
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
    """How NVRTC compiles SOURCE for that type."""
    return ("--std=c++17", *(("-DUSE_DOUBLE",) if dtype == "float64" else ()))


def prepare(point: Point) -> Task:
    """Random normal x and y on the device, and an output; Skip where three arrays do not fit."""
    cupy = library("cupy")
    op, dtype = str(point["op"]), str(point["dtype"])
    itemsize = np.dtype(dtype).itemsize
    lanes = VECTOR_BYTES // itemsize
    vectors = array_length(itemsize) // lanes
    length = vectors * lanes
    blocks = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount")
    rng, s = point.rng(), np.dtype(dtype).type(SCALAR)
    x, y = (cupy.empty(length, dtype) for _ in range(2))
    sums = cupy.empty(blocks, dtype)
    out = cupy.empty(1 if op == "dot" else length, dtype)
    module = cupy.RawModule(code=SOURCE, options=options(dtype))
    names = ("dot_partial", "dot_total") if op == "dot" else (op,)
    kernels = [module.get_function(name) for name in names]

    def run(stream: int = 0) -> None:
        with cupy_stream(stream):
            if op == "dot":
                partial, total = kernels
                partial((blocks,), (THREADS,), (x, y, sums, np.int64(vectors)))
                total((1,), (THREADS,), (sums, np.int32(blocks), out))
            else:
                kernels[0]((blocks,), (THREADS,), (x, y, s, out, np.int64(vectors)))

    def load() -> tuple[Any, Any]:
        inputs = draw(rng, length, dtype)
        x.set(inputs[0])
        y.set(inputs[1])
        return inputs

    def verify() -> Verification:
        inputs = load()
        sums.fill(np.nan)
        out.fill(np.nan)
        synchronize()
        run()
        synchronize()
        if op == "dot":
            return verify_dot(*inputs, float(out.get()[0]), longest_chain(length, blocks, THREADS))
        return verify_elements(op, *inputs, out.get())

    load()
    return Task(run=run, verify=verify, work=work_of(op, length, itemsize))
