"""Read bandwidth of one working set that all multiprocessors read repeatedly, with loads of 16 bytes.

Bound: L1 (128 bytes per clock and multiprocessor) while the set fits in it; then L2, which all multiprocessors share;
then device memory. There is one block per multiprocessor. Every block reads the whole set, starting at evenly spaced
positions, so that a line that one block has loaded into L2 is not read again soon by another block.

The timer flushes L2 before each isolated sample; a block reads at least READ bytes, so that the initial misses are
negligible. Written in CUDA C++, because its loads can be volatile. Not measured yet on a GPU.
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
"""Bytes that a block reads at once; the size of a working set must be a multiple."""
READ = 128 << 20
"""Minimum bytes per block and execution: 0.5 ms from L1, 3 ms from L2."""

SOURCE = r"""
// An ordinary load of 16 bytes through L1 and L2; `volatile` keeps the compiler from reusing the previous pass's value.
__device__ __forceinline__ uint4 read(const uint4* address) {
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}

// Each thread does `loads` loads from a ring of `vectors` vectors, a multiple of THREADS, in steps of THREADS.
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
    """Return the expected sum over the threads of a block, modulo 2³²; `words` is the working set as uint32."""
    x, y, z, w = words.reshape(-1, 4).T
    return passes * (int((x ^ y).sum(dtype=np.uint64)) + int((z ^ w).sum(dtype=np.uint64))) % 2**32


def prepare(point: Point) -> Task:
    """Prepare a random working set; Skip if its size is not a multiple of STEP or exceeds the device memory."""
    cupy = library("cupy")
    size = int(point["kib"]) * 1024
    if size % STEP:
        raise Skip(f"kib={size // 1024} is not a multiple of {STEP // 1024} KiB, which a block reads at once")
    require_device_memory(size)
    blocks, vectors = attribute("MultiProcessorCount"), size // VECTOR_BYTES
    passes = max(1, READ // size)
    loads = passes * vectors // THREADS
    data, sums = cupy.empty(size // 4, np.uint32), cupy.empty((blocks, THREADS), np.uint32)
    rng = point.rng()
    kernel = cupy.RawModule(code=SOURCE, options=OPTIONS).get_function("read_all")
    kernel.preferred_shared_memory_carveout = 0  # maximum L1

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
            method="sum of the working set by each block, modulo 2³²",
            expected=str(expected),
            found=str(int(wrong[0]) if wrong.size else expected),
        )

    draw()
    metrics = {"multiprocessors": Metric(blocks)}
    return Task(run=run, verify=verify, work=Work(bytes=blocks * loads * STEP), metrics=lambda _seconds: metrics)
