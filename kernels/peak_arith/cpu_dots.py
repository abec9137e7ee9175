"""Independent chains of dot-product instructions on vector registers: the ceiling of int8, bfloat16 and float16.

Bound: the units that multiply. Nothing is loaded or stored but once per chain's steps, so the rate is
cores × clock × instructions per cycle × sums × products of a sum × 2 (`kernels.dots`). An operation on int8 counts like
one on floating-point numbers.

Measured share of the bound, if it is one instruction of 512 bits per cycle, on one core of an AMD Zen 4 (virtual
machine): 124 of 128 operations per cycle in int8, 61 of 64 in bfloat16. float16 has never run.

The answers are exact. int32 sums wrap around as NumPy's do, whatever the factors; those of floating-point types are
whole numbers of at most 2²⁴ in float32 and 2¹¹ in float16, so that no kind of rounding changes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange

from kernels.dots import Dot, dot_chains, find_dot, run_dot_chains
from kernels.matmul.formats import to_storage
from kernels.peak_arith.cpu_fma import observed_clock
from kernels.threads import compiled, parallel, thread_count
from profiling.benchmark import Skip, Task
from profiling.records.point import Point
from profiling.records.quality import Metric, Verification
from profiling.records.work import Work


@dataclass(frozen=True)
class Numbers:
    """The whole numbers that keep a type's sums exact, and how often they are added."""

    largest_start: int
    largest_factor: int
    steps: int
    """Instructions of each chain in one round."""
    rounds: int
    """Rounds of one execution, each with starting values of its own."""


# |start| + steps·products·largest_factor² is at most 2²³ + 2¹⁶·4·4² < 2²⁴ in float32 and 2¹⁰ + 2¹⁰ = 2¹¹ in float16.
# 16·65,536 steps of 28 chains are some 8 ms, so that waking threads does not show.
NUMBERS = {
    "int8": Numbers(1 << 30, 127, 1 << 16, 16),
    "bfloat16": Numbers(1 << 23, 4, 1 << 16, 16),
    "float16": Numbers(1 << 10, 1, 1 << 10, 1 << 10),
}


@compiled
def run_rounds(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Advance every round's sums by `steps` instructions on the two registers in `factors`."""
    for start in range(0, len(sums), stride):
        run_dot_chains(sums, start, factors, steps)


@parallel
def run_on_all(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Do `run_rounds` on every thread: row t of `sums` and `factors` is thread t's."""
    for thread in prange(len(sums)):
        run_rounds(sums[thread], factors[thread], steps, stride)


def added(dot: Dot, a: Any, b: Any) -> Any:
    """Return what one instruction adds to its sums, for whole numbers a and b (…, numbers)."""
    if dot.matrix:
        rows = [x.reshape(*x.shape[:-1], 2, dot.products) for x in (a, b)]
        return np.einsum("...ik,...jk->...ij", *rows).reshape(*a.shape[:-1], dot.sums)
    return (a * b).reshape(*a.shape[:-1], dot.sums, dot.products).sum(axis=-1)


def to_bytes(numbers: Any, dtype: str, unsigned: bool = False) -> Any:
    """Return whole numbers (…, n) as the bytes of registers."""
    stored = (
        numbers.astype(np.uint8) if unsigned else np.ascontiguousarray(to_storage(numbers.astype(np.float32), dtype))
    )
    return stored.view(np.uint8)


def prepare(point: Point) -> Task:
    """Prepare random whole starting values and factors for each thread; Skip where the CPU has no such instruction."""
    dtype = str(point["dtype"])
    dot, numbers = find_dot(dtype), NUMBERS[dtype]
    if dot is None:
        raise Skip(f"this CPU has no instruction for {dtype} arithmetic that is known here")
    threads = thread_count() if point["cores"] == "all" else 1
    stride = dot_chains() * dot.sums
    rng = point.rng()
    kept = {"int8": np.int32, "bfloat16": np.float32, "float16": np.float16}[dtype]
    sums = np.empty((threads, numbers.rounds * stride), kept)
    words = sums.view(np.uint16) if dtype == "float16" else sums
    factors = np.empty((threads, 2 * dot.bytes), np.uint8)

    def draw() -> Any:
        """Fill sums and factors and return what an instruction adds."""
        sums[:] = rng.integers(-numbers.largest_start, numbers.largest_start, sums.shape, endpoint=True)
        shape, most = (threads, dot.numbers), numbers.largest_factor
        a, b = (rng.integers(1, most, shape, endpoint=True) * rng.choice((-1, 1), shape) for _ in range(2))
        if dot.unsigned:
            a += 128
        factors[:, : dot.bytes] = to_bytes(a, dtype, dot.unsigned)
        factors[:, dot.bytes :] = to_bytes(b, dtype)
        return added(dot, a, b)

    def execute() -> None:
        if threads == 1:
            run_rounds(words[0], factors[0], numbers.steps, stride)
        else:
            run_on_all(words, factors, numbers.steps, stride)

    def run() -> None:
        # The second factors' sign is turned each time, so that repetition brings the sums back instead of ever further.
        execute()
        second = factors[:, dot.bytes :]
        if dtype == "int8":
            np.negative(second.view(np.int8), out=second.view(np.int8))
        else:
            second[:, 1::2] ^= 0x80

    def verify() -> Verification:
        each = draw()
        change = numbers.steps * np.tile(each, numbers.rounds * dot_chains())
        expected = (sums + change).astype(kept)
        if dtype == "int8":
            expected = (sums.astype(np.int64) + change).astype(np.int32)  # wraps around, as the instruction does
        execute()
        wrong = int(np.count_nonzero(sums != expected))
        return Verification(
            passed=wrong == 0,
            method="closed form of every sum, exact in whole numbers",
            expected=f"all {sums.size:,} sums",
            found=f"{wrong:,} of them wrong",
        )

    flops = threads * numbers.rounds * numbers.steps * dot_chains() * dot.flops

    def metrics(seconds: float) -> dict[str, Metric]:
        clock = observed_clock(threads, point.seed)
        return {
            "clock": Metric(clock / 1e6, "MHz"),
            "arithmetic per core": Metric(flops / seconds / clock / threads, "FLOP/cycle"),
            "threads": Metric(threads),
        }

    draw()
    return Task(run=run, verify=verify, work=Work(flops=flops), metrics=metrics)
