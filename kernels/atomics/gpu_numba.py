"""Atomic additions by all threads of the device, to global memory (executed in L2) or to shared memory.

Bound: for `one`, the atomic unit of one L2 slice, which executes one addition after the other; for `own` and `warp`,
the units of all slices, each of which combines the additions of a warp to one address or line; for `random`, one
request per addition; for `block`, the atomic units of shared memory.

A thread alternately adds two positive numbers, so that every lost or repeated addition changes a counter. One counter
of float32 cannot hold the sum of 70 million such additions: there a thread alternately adds a number and its negative,
and only one thread per warp adds a second number that is closer to zero by 1. Thus each counter is exact in any order
of additions. The old values are not returned (RED, not ATOM), so that a thread does not wait for its additions
(`accelbench.kernels.atomics.additions`).

Compiled for compute capability 8.0 to 10.0: for int32 and one counter, in global or shared memory, the compiler first
sums over the warp (REDUX) and issues one addition. Shared memory has no addition of int64 or float32, so `block` is a
compare-and-swap loop for these types. Not measured yet on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.atomics.additions import add_to_memory, add_to_shared
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, int32, int64, numba_stream, uint32, void
from accelbench.kernels.lib.gpu.residency import resident_blocks
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8
"""8 × 256 threads are the 2,048 that can be resident on a multiprocessor."""
WARP = 32
ADDITIONS = 255
"""Additions per thread and execution."""
LARGEST = 3
"""Largest number that is added: with up to 1,170 multiprocessors, every counter is exact in its type."""
RANDOM_BITS = 20
"""`random` adds to 2²⁰ counters: 4 or 8 MiB, which fit in L2."""
FACTOR, INCREMENT = 1664525, 1013904223
"""Linear congruential generator modulo 2³² (Numerical Recipes, 7.1); its high bits select the counter."""
TYPES = {"int32": int32, "int64": int64, "float32": float32}


def define_kernels(number: Any) -> dict[str, Any]:
    """Return the functions `add(counters, values, seeds, additions)` by target, for counters of a Numba type.

    `values` contains two elements per thread: its first addition, and the sum of two consecutive additions.
    """

    def one(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        value, both = values[2 * cuda.grid(1)], values[2 * cuda.grid(1) + 1]
        for _ in range(additions):
            add_to_memory(counters, 0, value)
            value = number(both - value)

    def warp(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        thread = cuda.grid(1)
        value, both = values[2 * thread], values[2 * thread + 1]
        # One counter per 32 elements, so that each warp has a separate cache line.
        place = thread // WARP * WARP
        for _ in range(additions):
            add_to_memory(counters, place, value)
            value = number(both - value)

    def own(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        thread = cuda.grid(1)
        value, both = values[2 * thread], values[2 * thread + 1]
        for _ in range(additions):
            add_to_memory(counters, thread, value)
            value = number(both - value)

    def random(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        thread = cuda.grid(1)
        value, both = values[2 * thread], values[2 * thread + 1]
        state = seeds[thread]
        for _ in range(additions):
            add_to_memory(counters, state >> uint32(32 - RANDOM_BITS), value)
            value = number(both - value)
            state = uint32(state * uint32(FACTOR) + uint32(INCREMENT))

    def block(counters: Any, values: Any, seeds: Any, additions: int) -> None:
        shared = cuda.shared.array(1, number)
        value, both = values[2 * cuda.grid(1)], values[2 * cuda.grid(1) + 1]
        if cuda.threadIdx.x == 0:
            shared[0] = number(0)
        cuda.syncthreads()
        for _ in range(additions):
            add_to_shared(shared, 0, value)
            value = number(both - value)
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


def places(target: str, threads: int, seeds: Any) -> Any:
    """Return the index of the counter to which each thread adds; for `random`, advance `seeds` in place."""
    thread = np.arange(threads)
    if target == "random":
        chosen = seeds >> np.uint32(32 - RANDOM_BITS)
        seeds *= np.uint32(FACTOR)
        seeds += np.uint32(INCREMENT)
        return chosen
    return {"one": thread * 0, "warp": thread // WARP * WARP, "own": thread, "block": thread // THREADS}[target]


def draw_values(rng: np.random.Generator, target: str, dtype: str, threads: int) -> Any:
    """Return the first addition of each thread and the sum of two, alternately."""
    first, second = rng.integers(1, LARGEST, (2, threads), endpoint=True)
    if (target, dtype) == ("one", "float32"):
        second = (np.arange(threads) % WARP == 0) - first
    return np.column_stack((first, first + second)).ravel().astype(dtype)


def expected_counters(target: str, start: Any, values: Any, seeds: Any, additions: int) -> Any:
    """Return the expected counters in float64, which is exact."""
    state, total = seeds.copy(), start.astype(np.float64)
    first, both = values.astype(np.float64).reshape(-1, 2).T
    if target == "random":
        for addition in range(additions):
            chosen = places(target, len(first), state)
            total += np.bincount(chosen, both - first if addition % 2 else first, len(start))
        return total
    added = additions // 2 * both + additions % 2 * first
    return total + np.bincount(places(target, len(first), state), added, len(start))


def prepare(point: Point) -> Task:
    """Prepare counters with random initial values, and two random values and a seed for each thread."""
    target, dtype = str(point["target"]), str(point["dtype"])
    blocks = resident_blocks(THREADS, BLOCKS_PER_MULTIPROCESSOR)
    threads = blocks * THREADS
    count = 1 << RANDOM_BITS if target == "random" else threads
    counters, values = cuda.device_array(count, dtype), cuda.device_array(2 * threads, dtype)
    seeds = cuda.device_array(threads, np.uint32)
    kernel, rng = KERNELS[dtype][target], point.rng()

    def run(stream: int = 0) -> None:
        kernel[blocks, THREADS, numba_stream(stream)](counters, values, seeds, np.int32(ADDITIONS))

    def draw() -> tuple[Any, Any, Any]:
        start = rng.integers(-LARGEST, LARGEST, count, endpoint=True).astype(dtype)
        added = draw_values(rng, target, dtype, threads)
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
    """Check every counter for equality."""
    wrong = np.flatnonzero(found != expected)
    shown = wrong[0] if wrong.size else 0
    return Verification(
        passed=wrong.size == 0,
        method="every counter, exactly",
        expected=f"{expected[shown]:g}",
        found=f"{found[shown]:g}",
    )
