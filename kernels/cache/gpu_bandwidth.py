"""Repeated reading of one working set by all multiprocessors, 16 bytes per load.

Bound: L1, 128 bytes per clock and multiprocessor, while the set fits into the L1 of each; then L2, which serves the
same set to all; then device memory. Every block (one per multiprocessor) reads the whole set, each from a place of
its own, evenly spread: what one block leaves in L2 another needs again only after the whole set has passed.

The timer empties L2 before each isolated sample; a block reads at least READ bytes, so that this first reading is lost
in the rest. In CUDA C++, for loads of 16 bytes that are made anew in every pass. Not measured yet on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_stream, require_device_memory
from accelbench.profiling.machine.nvidia.cuda import attribute, library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

THREADS = 1024
VECTOR_BYTES = 16
STEP = THREADS * VECTOR_BYTES
"""The bytes that a block reads at once; a working set is a multiple of it."""
READ = 128 << 20
"""Bytes that each block reads in one execution, at least: half a millisecond from L1, 3 from L2."""

SOURCE = r"""
#ifndef CUDA_ON_HOST
// An ordinary load of 16 bytes, through L1 and L2; `volatile` keeps that of every pass.
__device__ __forceinline__ uint4 read(const uint4* address) {
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}
#endif

// Each thread makes `loads` loads, in steps of the block around a ring of `vectors`, a multiple of THREADS.
extern "C" __global__ void __launch_bounds__(THREADS)
read_all(const uint4* data, unsigned int vectors, unsigned int loads, unsigned int* sums) {
    const unsigned int steps = vectors / THREADS;
    unsigned int i = (unsigned int)((unsigned long long)blockIdx.x * steps / gridDim.x) * THREADS + threadIdx.x;
    unsigned int sum = 0;
    #pragma unroll 8
    for (unsigned int load = 0; load < loads; ++load) {
        const uint4 v = read(data + i);
        sum += (v.x ^ v.y) + (v.z ^ v.w);
        i += THREADS;
        if (i >= vectors) i -= vectors;
    }
    sums[blockIdx.x * THREADS + threadIdx.x] = sum;
}
"""
OPTIONS = ("--std=c++17", f"-DTHREADS={THREADS}")


def device_code() -> list[DeviceKernel]:
    return [CudaKernel("cache bandwidth", "read_all", SOURCE, OPTIONS, tuned=True, unit="8 loads of 16 bytes")]


def expected_sum(words: Any, passes: int) -> int:
    """Return what the threads of one block must add up to together, modulo 2³²; `words` are the set as uint32."""
    x, y, z, w = words.reshape(-1, 4).T
    return passes * (int((x ^ y).sum(dtype=np.uint64)) + int((z ^ w).sum(dtype=np.uint64))) % 2**32


def prepare(point: Point) -> Task:
    """Prepare a random working set; Skip where it is no multiple of STEP, or too large for the device memory."""
    cupy = library("cupy")
    size = int(point["kib"]) * 1024
    if size % STEP:
        raise Skip(f"a block reads {STEP // 1024} KiB at once, and {size // 1024} KiB are no multiple of that")
    require_device_memory(size)
    blocks, vectors = attribute("MultiProcessorCount"), size // VECTOR_BYTES
    passes = max(1, READ // size)
    loads = passes * vectors // THREADS
    data, sums = cupy.empty(size // 4, np.uint32), cupy.empty((blocks, THREADS), np.uint32)
    rng = point.rng()
    kernel = cupy.RawModule(code=SOURCE, options=OPTIONS).get_function("read_all")
    kernel.preferred_shared_memory_carveout = 0  # what is not shared memory is L1

    def run(stream: int = 0) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (THREADS,), (data, np.uint32(vectors), np.uint32(loads), sums))

    def draw() -> Any:
        words = rng.integers(0, 1 << 32, size // 4, np.uint32)
        data.set(words)
        return words

    def verify() -> Verification:
        words = draw()
        expected = expected_sum(words, passes)
        sums.fill(0xDEADBEEF)
        synchronize()
        run()
        synchronize()
        found = sums.get().sum(axis=1, dtype=np.uint64) % 2**32
        wrong = found[found != expected]
        return Verification(
            passed=wrong.size == 0,
            method="each block's sum of the set, modulo 2³²",
            expected=str(expected),
            found=str(int(wrong[0]) if wrong.size else expected),
        )

    draw()
    metrics = {"multiprocessors": Metric(blocks)}
    return Task(run=run, verify=verify, work=Work(bytes=blocks * loads * STEP), metrics=lambda _seconds: metrics)
