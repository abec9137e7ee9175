"""Load latency by pointer chasing in one thread: the address of each load is the result of the previous one.

Bound: the latency of the level that holds the working set: L1 of one multiprocessor, L2 or device memory. Above some
tens of MiB it includes TLB misses. There is one pointer per cache line of 128 bytes, and the lines form one random
cycle.

The timer flushes L2 before each isolated sample, but not between the executions of a batch. Therefore all threads of
the block first read the set, if it fits in L2, a thousand lines at a time; then one thread chases. A larger set is not
read first, because the lines left in L2 would be hits of the chase: up to L2/S of the accesses for a set of S bytes, a
tenth for 512 MiB on an H100. The reported time includes this first pass, at most 3 % by estimate. The reported cycles
are those of the chase alone, in the last execution of the batch.

Hits in a level that is smaller than the set, with least-recently-used replacement:
- L1 keeps the last lines of the first pass: at most 2,048 lines in 256 KiB, each hit once, 3 % of the 65,536 accesses.
- L2 has no hits. The next execution continues where this one ended, so each line was last read one cycle earlier, and
  more lines than fit have been read since. (With random replacement exp(−S/L2) of the lines would remain in a batch:
  28 % for 64 MiB on an H100, 8 % for 128 MiB, none for 512 MiB. Before each isolated sample the timer writes as much as
  L2 holds, eight times during a cycle of 64 MiB, which leaves 0.01 %.)

Written in CUDA C++, because Numba-CUDA can only chase indices, which adds address arithmetic to every access. Not
measured yet on a GPU.
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
"""Bytes between pointers: a cache line of every NVIDIA GPU."""
STEPS = 1 << 16
"""Accesses of one execution: 1 ms in L1, 40 ms in memory. The next execution continues from the last line."""
THREADS = 1024

SOURCE = r"""
// An ordinary load through L1 and L2 that the compiler neither moves nor removes.
__device__ __forceinline__ unsigned long long read(unsigned long long address) {
    unsigned long long value;
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(address));
    return value;
}

// state[0]: first address, replaced by the last one; state[1]: clock cycles of the chase.
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
    """Return the number of lines read before the chase: all, or 0 if the set does not fit in L2."""
    return lines if lines * LINE <= l2_bytes else 0


def prepare(point: Point) -> Task:
    """Prepare a random cycle through the working set; Skip if it needs more than half of the free device memory."""
    cupy = library("cupy")
    lines = int(point["kib"]) * 1024 // LINE
    filling = lines_to_fill(lines, attribute("L2CacheSize"))
    require_device_memory(lines * LINE)
    pointers = cupy.empty(lines * LINE // 8, np.uint64)
    first = int(pointers.data.ptr)
    cycle = Cycle(first, lines, LINE, point.rng())
    state = cupy.empty(2, np.uint64)
    kernel = cupy.RawModule(code=SOURCE, options=OPTIONS).get_function("chase")
    kernel.preferred_shared_memory_carveout = 0  # maximum L1

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
