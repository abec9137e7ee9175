"""Empirical peak of the plain FMA units by independent chains of fused multiply-adds in the registers of all threads.

Bound: the FMA units, without tensor cores. A multiprocessor has four schedulers, each of which issues one warp
instruction per clock. Each scheduler has 8 warps with 8 chains: 64 independent FMAs, of which a latency of 4–8 clocks
requires at most 8. So the rate is multiprocessors × clock × FMAs per clock × 2. An instruction on 16-bit numbers does
two FMAs, one in each half of a register; on compute capability 9.0 every other one is executed by a second unit
(HFMA2.MMA).

One iteration of the loop does 64 FMAs in each chain and adds the bits of all sums to the result of the thread. It has
520 or 521 instructions on compute capability 8.0, 9.0 and 10.0, of which 512 are FMA (0.98). In float64 it has 525 or
526 (0.97), but the others are hidden, because an FMA takes two or more clocks.

The sums are whole numbers small enough to be exact in every format: one iteration adds 64·a·b to them, the next
subtracts it, so that they stay small. The results include the sums of every iteration and are checked bit by bit for
all threads: one missing FMA in any lane fails the check. The metric `FLOP per cycle per multiprocessor` shows the
share of the bound independently of the clock: on an H100 249.4 of 256 in float32 and 116.7 of 128 in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.cuda import (
    attribute,
    library,
    require_compute_capability,
    synchronize,
)
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

THREADS = 1024
"""Threads per block, one block per multiprocessor: 8 warps for each scheduler, evenly distributed on every GPU."""
CHAINS = 8
STEPS = 64
"""FMAs of a chain in one iteration of the loop."""
TURNS = 1024
"""Iterations of the loop: some 2 ms at one FMA per clock and scheduler, long compared with a launch."""

SOURCE = r"""
// WORD is the type of a register (one number, or two 16-bit numbers), BITS the integer of its size, SIGN its sign bits.
__device__ __forceinline__ void add_product(WORD& sum, WORD a, WORD b) {
    asm volatile("fma.rn." TYPE " %0, %1, %2, %0;" : "+" REGISTER(sum) : REGISTER(a), REGISTER(b));
}

union Word { WORD value; BITS bits; };

// Per thread of the grid: CHAINS words of `starts`, two of `factors`, one of `answers`. `cycles`: one number per block.
extern "C" __global__ void __launch_bounds__(THREADS)
run_chains(const WORD* starts, const WORD* factors, int turns, BITS* answers, long long* cycles) {
    const int threads = gridDim.x * THREADS, thread = blockIdx.x * THREADS + threadIdx.x;
    Word sums[CHAINS], a;
    #pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sums[chain].value = starts[chain * threads + thread];
    a.value = factors[thread];
    const WORD b = factors[threads + thread];
    BITS answer = 0;
    __syncthreads();
    const long long begin = clock64();
    #pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step)
            #pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain) add_product(sums[chain].value, a.value, b);
        #pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) answer += sums[chain].bits;
        a.bits ^= SIGN;
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
    answers[thread] = answer;
}
"""


@dataclass(frozen=True)
class RegisterFormat:
    """Register layout of a dtype, and ranges of whole numbers with exact sums."""

    lanes: int
    """Numbers in one register."""
    word: str
    """CUDA C++ type of the register."""
    instruction: str
    """Type suffix of `fma.rn` in PTX."""
    constraint: str
    """Constraint letter of the register in inline assembly."""
    bits: Any
    """Integer type of the size of the register."""
    largest_start: int
    largest_factors: tuple[int, int]
    capability: tuple[int, int]

    @property
    def sign(self) -> int:
        """Sign bits of all numbers of a register."""
        width = np.dtype(self.bits).itemsize * 8 // self.lanes
        return sum(1 << ((lane + 1) * width - 1) for lane in range(self.lanes))

    @property
    def options(self) -> tuple[str, ...]:
        """Return the NVRTC options for SOURCE."""
        defined = {
            "THREADS": THREADS,
            "CHAINS": CHAINS,
            "STEPS": STEPS,
            "WORD": self.word,
            "BITS": {np.uint32: "unsigned int", np.uint64: "unsigned long long"}[self.bits],
            "TYPE": f'"{self.instruction}"',
            "REGISTER": f'"{self.constraint}"',
            "SIGN": f"{self.sign:#x}u" + "ll" * (self.bits is np.uint64),
        }
        return ("--std=c++17", *(f"-D{name}={value}" for name, value in defined.items()))


# |start| + STEPS·|a·b| is at most 2²⁴ in float32 (2⁵³ in float64), 2¹¹ in float16 and 2⁸ in bfloat16, the limits for
# exact whole numbers. The compute capability is the lowest with the instruction (PTX ISA, fma).
FORMATS = {
    "float64": RegisterFormat(1, "double", "f64", "d", np.uint64, 1 << 23, (255, 255), (5, 0)),
    "float32": RegisterFormat(1, "float", "f32", "f", np.uint32, 1 << 23, (255, 255), (5, 0)),
    "float16": RegisterFormat(2, "unsigned int", "f16x2", "r", np.uint32, 512, (6, 4), (5, 3)),
    "bfloat16": RegisterFormat(2, "unsigned int", "bf16x2", "r", np.uint32, 128, (2, 1), (8, 0)),
}


def device_code() -> list[DeviceKernel]:
    return [
        CudaKernel(
            f"peak-arith {dtype}",
            "run_chains",
            SOURCE,
            kind.options,
            tuned=True,
            unit=f"{STEPS * CHAINS} FMA",
            capability=kind.capability,
        )
        for dtype, kind in FORMATS.items()
    ]


def to_words(numbers: Any, dtype: str) -> Any:
    """Return whole numbers of shape (…, lanes) as registers of shape (…), in the integer type of the registers."""
    kind = FORMATS[dtype]
    if dtype == "bfloat16":  # upper half of a float32; the lower half is zero for whole numbers up to 2⁸
        stored = (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        stored = numbers.astype(dtype)
    return np.ascontiguousarray(stored).view(kind.bits).reshape(numbers.shape[:-1])


def expected_answers(starts: Any, factors: Any, turns: int, dtype: str) -> Any:
    """Return the expected result of each thread: the added bits of all sums after each iteration.

    The shapes are (CHAINS, threads, lanes) for `starts` and (2, threads, lanes) for `factors`. After an odd number of
    iterations a sum is start + STEPS·a·b, after an even number it is start.
    """
    after_odd = to_words(starts + STEPS * factors[0] * factors[1], dtype).sum(axis=0, dtype=np.uint64)
    after_even = to_words(starts, dtype).sum(axis=0, dtype=np.uint64)
    answers = np.uint64(turns - turns // 2) * after_odd + np.uint64(turns // 2) * after_even
    return answers.astype(FORMATS[dtype].bits)  # modulo the size of a register


def draw(rng: np.random.Generator, threads: int, dtype: str) -> tuple[Any, Any]:
    """Return random whole initial sums and factors, never 0, of both signs."""
    kind = FORMATS[dtype]
    starts = rng.integers(-kind.largest_start, kind.largest_start, (CHAINS, threads, kind.lanes), endpoint=True)
    largest = np.reshape(kind.largest_factors, (2, 1, 1))
    shape = 2, threads, kind.lanes
    return starts, rng.integers(1, largest, shape, endpoint=True) * rng.choice((-1, 1), shape)


def prepare(point: Point) -> Task:
    """Prepare random initial sums and factors for all threads of the device; Skip if it lacks the FMA of the type."""
    cupy = library("cupy")
    dtype = str(point["dtype"])
    kind = FORMATS[dtype]
    require_compute_capability(kind.capability, f"the {dtype} FMA of the plain units")
    blocks = attribute("MultiProcessorCount")
    threads = blocks * THREADS
    rng = point.rng()
    starts, factors = cupy.empty((CHAINS, threads), kind.bits), cupy.empty((2, threads), kind.bits)
    answers, cycles = cupy.empty(threads, kind.bits), cupy.empty(blocks, np.int64)
    kernel = cupy.RawModule(code=SOURCE, options=kind.options).get_function("run_chains")

    def run(stream: int = 0) -> None:
        with cupy_stream(stream):
            kernel((blocks,), (THREADS,), (starts, factors, np.int32(TURNS), answers, cycles))

    def load() -> Any:
        drawn = draw(rng, threads, dtype)
        for array, numbers in zip((starts, factors), drawn, strict=True):
            array.set(to_words(numbers, dtype))
        return expected_answers(*drawn, TURNS, dtype)

    def verify() -> Verification:
        expected = load()
        answers.set(~expected)
        synchronize()
        run()
        synchronize()
        return verify_answers(answers.get(), expected)

    flops = threads * TURNS * STEPS * CHAINS * kind.lanes * 2

    def metrics(_seconds: float) -> dict[str, Metric]:
        counted = float(np.median(cycles.get()))  # the cycles of the last execution
        return {
            "FLOP per cycle per multiprocessor": Metric(flops / blocks / counted, "FLOP"),
            "multiprocessors": Metric(blocks),
        }

    load()
    return Task(run=run, verify=verify, work=Work(flops=flops, unit_kind="plain"), metrics=metrics)


def verify_answers(found: Any, expected: Any) -> Verification:
    """Check the result of every thread bit by bit."""
    wrong = np.flatnonzero(found != expected)
    shown = int(wrong[0]) if wrong.size else 0
    return Verification(
        passed=wrong.size == 0,
        method="bits of every sum after every iteration, added by each thread",
        expected=f"{int(expected[shown]):#x} of thread {shown:,}, and all others equal",
        found=f"{int(found[shown]):#x}, and {wrong.size:,} of {found.size:,} threads wrong",
    )
