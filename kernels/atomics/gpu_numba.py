"""Atomic additions by all threads of the device, to memory (in L2, where its atomic units are) or to shared memory.

Bound: of `one`, the atomic unit of one L2 slice, which takes one addition after the other; of `own` and `warp`, the
units of all slices, each of which adds up what a warp sends to one address or line; of `random`, a request per
addition; of `block`, the shared memory's own units.

A thread adds its value and its negative in turn, an odd number of times. So no counter ever exceeds the sum of the
values' magnitudes, which float32 holds exactly in whatever order the additions come. The results are not asked for, so
that the additions need not be waited for (RED, not ATOM): `accelbench.kernels.atomics.additions`.

What the compiler makes of it for compute capability 8.0 to 10.0: of int32 to one counter, be it in memory or shared, a
warp is summed first (REDUX) and sends one addition; shared memory adds neither int64 nor float32, so that `block` is a
loop of compare-and-swap there. Not measured yet on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.atomics.additions import add_to_memory, add_to_shared
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, int32, int64, numba_stream, uint32, void
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import attribute, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8
"""8 × 256 threads fill the 2,048 that a multiprocessor holds."""
WARP = 32
ADDITIONS = 255
"""The additions by each thread in one execution; odd, so that its value remains."""
LARGEST = 7
"""The largest value: 7 × 2,048 threads of up to 1,170 multiprocessors stay below 2²⁴, where float32 is exact."""
RANDOM_BITS = 20
"""`random` adds to 2²⁰ counters: 4 or 8 MiB, which L2 holds."""
FACTOR, INCREMENT = 1664525, 1013904223
"""A linear congruential generator modulo 2³² (Numerical Recipes, 7.1), whose high bits choose the counter."""
TYPES = {"int32": int32, "int64": int64, "float32": float32}
SPREAD = {"one": 0, "warp": WARP, "own": 1}
"""Counters from one warp to the next, or from one thread to the next."""


def define_kernels(number: Any) -> dict[str, Any]:
    """Return functions `add(counters, values, seeds, additions)` by target, for counters of that Numba type."""

    def one(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        value = values[cuda.grid(1)]
        for _ in range(additions):
            add_to_memory(counters, 0, value)
            value = number(-value)

    def warp(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        thread = cuda.grid(1)
        value = values[thread]
        # The warps' counters are as far apart as their threads: on lines of their own.
        place = thread // WARP * WARP
        for _ in range(additions):
            add_to_memory(counters, place, value)
            value = number(-value)

    def own(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        thread = cuda.grid(1)
        value = values[thread]
        for _ in range(additions):
            add_to_memory(counters, thread, value)
            value = number(-value)

    def random(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        thread = cuda.grid(1)
        value = values[thread]
        state = seeds[thread]
        for _ in range(additions):
            add_to_memory(counters, state >> uint32(32 - RANDOM_BITS), value)
            value = number(-value)
            state = uint32(state * uint32(FACTOR) + uint32(INCREMENT))

    def block(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        shared = cuda.shared.array(1, number)
        value = values[cuda.grid(1)]
        if cuda.threadIdx.x == 0:
            shared[0] = number(0)
        cuda.syncthreads()
        for _ in range(additions):
            add_to_shared(shared, 0, value)
            value = number(-value)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            add_to_memory(counters, cuda.blockIdx.x, shared[0])

    return {"one": one, "warp": warp, "own": own, "random": random, "block": block}


KERNELS = {
    dtype: {target: cuda.jit(function) for target, function in define_kernels(number).items()}
    for dtype, number in TYPES.items()
}


def device_code() -> list[DeviceKernel]:
    return [
        NumbaKernel(
            f"atomics {target} {dtype}",
            kernel,
            void(TYPES[dtype][::1], TYPES[dtype][::1], uint32[::1], int32),
            tuned=True,
        )
        for dtype, kernels in KERNELS.items()
        for target, kernel in kernels.items()
    ]


def places(target: str, threads: int, addition: int, seeds: Any) -> Any:
    """Return each thread's counter for its addition of that number; for `random` advance `seeds`, in place."""
    thread = np.arange(threads)
    if target == "random":
        chosen = seeds >> np.uint32(32 - RANDOM_BITS)
        seeds *= np.uint32(FACTOR)
        seeds += np.uint32(INCREMENT)
        return chosen
    return {"one": thread * 0, "warp": thread // WARP * WARP, "own": thread, "block": thread // THREADS}[target]


def expected_counters(target: str, start: Any, values: Any, seeds: Any, additions: int) -> Any:
    """Return what the counters must be, in float64, which holds them exactly."""
    state, total = seeds.copy(), start.astype(np.float64)
    # A pair of additions to one place leaves nothing; only those to random places have to be followed.
    for addition in range(additions if target == "random" else 1):
        chosen = places(target, len(values), addition, state)
        total += (-1) ** addition * np.bincount(chosen, values, len(start))
    return total


def prepare(point: Point) -> Task:
    """Prepare counters at random starts, and for each thread a random value and a random seed."""
    target, dtype = str(point["target"]), str(point["dtype"])
    blocks = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount")
    threads = blocks * THREADS
    count = 1 << RANDOM_BITS if target == "random" else threads
    counters, values = cuda.device_array(count, dtype), cuda.device_array(threads, dtype)
    seeds = cuda.device_array(threads, np.uint32)
    kernel, rng = KERNELS[dtype][target], point.rng()

    def run(stream: int = 0) -> None:
        kernel[blocks, THREADS, numba_stream(stream)](counters, values, seeds, np.int32(ADDITIONS))

    def draw() -> tuple[Any, Any, Any]:
        start, added = (rng.integers(-LARGEST, LARGEST, n, endpoint=True).astype(dtype) for n in (count, threads))
        seeded = rng.integers(0, 1 << 32, threads, np.uint32)
        for array, host in ((counters, start), (values, added), (seeds, seeded)):
            array.copy_to_device(host)
        return start, added, seeded

    def verify() -> Verification:
        expected = expected_counters(target, *draw(), ADDITIONS)
        synchronize()
        run()
        synchronize()
        return verify_counters(expected, counters.copy_to_host())

    draw()
    work = Work(items=threads * ADDITIONS, item="atomic additions")
    return Task(run=run, verify=verify, work=work, metrics=lambda _seconds: {"threads": Metric(threads)})


def verify_counters(expected: Any, found: Any) -> Verification:
    """Check every counter, exactly."""
    wrong = np.flatnonzero(found != expected)
    shown = wrong[0] if wrong.size else 0
    return Verification(
        passed=wrong.size == 0,
        method="every counter, exactly",
        expected=f"{expected[shown]:g}",
        found=f"{found[shown]:g}",
    )
