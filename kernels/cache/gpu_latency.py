"""Pointer chase by one thread: each access needs the address that the previous access has read.

Bound: the latency of whatever level holds the working set, L1 of one multiprocessor, L2 or device memory; from some
tens of MiB on, misses of the address translation are part of it. There is one pointer per cache line of 128 bytes, and
the lines follow one another in a random order that is a single cycle.

The timer empties L2 before each isolated sample, and measures the batch without. So the whole block first reads the
set, a thousand lines at a time, where it fits into L2; then one thread chases. A set that does not fit is not read
before, for what such a reading leaves in L2 the chase would find: of a set of S bytes up to L2/S of the accesses, a
tenth of 512 MiB on an H100. The time is that of both, and the first is estimated at 3 % of it at most; the cycles are
those of the chase alone, in the last execution, which is one of the batch.

What the chase can still find in a level that is too small, if that replaces the line that was used the longest ago:
- L1 keeps the last lines that the block read: at most 2,048 of 256 KiB, each found once, 3 % of the 65,536 accesses.
- L2 nothing. The next execution goes on where this one ended, so that a line was last read a whole cycle ago, and
  since then more lines than fit have passed. (A cache that replaced lines at random would keep exp(−S/L2) of them in a
  batch: 28 % of 64 MiB on an H100, 8 % of 128 MiB, nothing of 512 MiB. Before each isolated sample the timer writes as
  much as L2 holds, and eight times in a cycle of 64 MiB: that leaves a ten-thousandth.)

It is in CUDA C++ because a chase of indices, which is what Numba-CUDA has, would add the arithmetic of an address to
every access. Not measured yet on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.pointer_chase import Cycle
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_stream, require_device_memory
from accelbench.profiling.machine.nvidia.cuda import attribute, library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

LINE = 128
"""Bytes from one pointer to the next: a cache line of every NVIDIA GPU."""
STEPS = 1 << 16
"""Accesses of one execution: 1 ms in L1, 40 ms in memory. The next execution goes on where this one ended."""
THREADS = 1024

SOURCE = r"""
#ifndef CUDA_ON_HOST
// An ordinary load, through L1 and L2, which the compiler neither moves nor leaves out.
__device__ __forceinline__ unsigned long long read(unsigned long long address) {
    unsigned long long value;
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(address));
    return value;
}
#endif

// state[0]: the address to start at, then the one arrived at; state[1]: the clock cycles of the chase.
extern "C" __global__ void __launch_bounds__(THREADS)
chase(unsigned long long first, unsigned int filling, unsigned int steps, unsigned long long* state) {
    for (unsigned long long line = threadIdx.x; line < filling; line += THREADS) read(first + line * LINE);
    __syncthreads();
    if (threadIdx.x != 0) return;
    unsigned long long address = state[0];
    const long long begin = clock64();
    #pragma unroll 16
    for (unsigned int step = 0; step < steps; ++step) address = read(address);
    state[0] = address;
    state[1] = clock64() - begin;
}
"""
OPTIONS = ("--std=c++17", f"-DTHREADS={THREADS}", f"-DLINE={LINE}")


def device_code() -> list[DeviceKernel]:
    return [CudaKernel("cache latency", "chase", SOURCE, OPTIONS, tuned=True, unit="16 accesses")]


def lines_to_fill(lines: int, l2_bytes: int) -> int:
    """Return how many lines of the set are read before the chase: all, or none where they do not fit into L2."""
    return lines if lines * LINE <= l2_bytes else 0


def prepare(point: Point) -> Task:
    """Prepare a random cycle through the working set; Skip where half of the free device memory does not hold it."""
    cupy = library("cupy")
    lines = int(point["kib"]) * 1024 // LINE
    filling = lines_to_fill(lines, attribute("L2CacheSize"))
    require_device_memory(lines * LINE)
    pointers = cupy.empty(lines * LINE // 8, np.uint64)
    first = int(pointers.data.ptr)
    cycle = Cycle(first, lines, LINE, point.rng())
    state = cupy.empty(2, np.uint64)
    kernel = cupy.RawModule(code=SOURCE, options=OPTIONS).get_function("chase")
    kernel.preferred_shared_memory_carveout = 0  # what is not shared memory is L1

    def run(stream: int = 0) -> None:
        with cupy_stream(stream):
            kernel((1,), (THREADS,), (np.uint64(first), np.uint32(filling), np.uint32(STEPS), state))

    def draw() -> None:
        host = np.zeros(pointers.shape, np.uint64)
        cycle.draw(host)
        pointers.set(host)
        state.set(np.array([cycle.after(0), 0], np.uint64))
        synchronize()

    def verify() -> Verification:
        draw()
        run()
        synchronize()
        return cycle.verify(STEPS, int(state.get()[0]))

    def metrics(seconds: float) -> dict[str, Metric]:
        cycles: Any = state.get()[1]  # the cycles of the last execution
        return {"cycles per access": Metric(float(cycles) / STEPS)}

    draw()
    return Task(run=run, verify=verify, work=Work(items=STEPS, item="accesses"), metrics=metrics)
