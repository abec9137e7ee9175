"""Empirical peak of int8, bfloat16 and float16 by independent chains of dot-product instructions on vector registers.

Bound: the multiplying units. Sums are loaded and stored once per round only, so the rate is
cores × clock × instructions per cycle × sums × products of a sum × 2 (`dot_instructions`). An operation on int8 counts
like a floating-point operation. On a CPU with AMX `accelbench.kernels.peak_arith.cpu_tiles`, which is several times
faster, measures the peak if Linux grants the process tiles. The metrics contain the name of the instruction.

Measured on one core of an AMD Zen 4 virtual machine: 124 of 128 operations per cycle in int8, 61 of 64 in bfloat16, if
the bound is one 512-bit instruction per cycle. float16 has never run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.amx import find_tile_dot, refusal
from accelbench.kernels.lib.cpu.dot_instructions import DotInstruction, dot_chains, find_dot, run_dot_chains
from accelbench.kernels.lib.cpu.threads import compiled, parallel
from accelbench.kernels.peak_arith import cpu_tiles
from accelbench.kernels.peak_arith.narrow_task import ExactNumbers, InstructionKernels, narrow_task, to_bytes
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric

# |start| + steps·products·largest_factor² is at most 2²³ + 2¹⁶·4·4² < 2²⁴ in float32 and 2¹⁰ + 2¹⁰ = 2¹¹ in float16.
# 16·65,536 steps of 28 chains take some 8 ms, so that the time to wake the threads is negligible.
NUMBERS = {
    "int8": ExactNumbers(1 << 30, 127, 1 << 16, 16),
    "bfloat16": ExactNumbers(1 << 23, 4, 1 << 16, 16),
    "float16": ExactNumbers(1 << 10, 1, 1 << 10, 1 << 10),
}


@compiled
def run_rounds(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Advance every round's sums by `steps` instructions on the two registers in `factors`."""
    for start in range(0, len(sums), stride):
        run_dot_chains(sums, start, factors, steps)


@parallel
def run_on_all(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Call `run_rounds` on every thread, with row t of `sums` and `factors` for thread t."""
    for thread in prange(len(sums)):
        run_rounds(sums[thread], factors[thread], steps, stride)


def added(dot: DotInstruction, a: Any, b: Any) -> Any:
    """Return the increments of the sums by one instruction, for whole numbers a and b of shape (…, numbers)."""
    if dot.matrix:
        rows = [x.reshape(*x.shape[:-1], 2, dot.products) for x in (a, b)]
        return np.einsum("...ik,...jk->...ij", *rows).reshape(*a.shape[:-1], dot.sums)
    return (a * b).reshape(*a.shape[:-1], dot.sums, dot.products).sum(axis=-1)


def unit(dot: DotInstruction) -> InstructionKernels:
    """Return the measured kernels of an instruction: `dot_chains()` registers of sums with the same factors."""
    dtype, numbers, chains = dot.dtype, NUMBERS[dot.dtype], dot_chains()

    def draw(rng: np.random.Generator, threads: int) -> tuple[Any, Any, Any]:
        a, b = (numbers.draw_factors(rng, (threads, dot.numbers)) for _ in range(2))
        if dot.unsigned:
            a += 128
        return to_bytes(a, dtype, dot.unsigned), to_bytes(b, dtype), np.tile(added(dot, a, b), chains)

    return InstructionKernels(
        *(dot.name, dtype, numbers, dot.flops, chains),
        sums=chains * dot.sums,
        factor_bytes=dot.bytes,
        draw=draw,
        run_rounds=run_rounds,
        run_on_all=run_on_all,
    )


def prepare(point: Point) -> Task:
    """Return the task of the fastest instruction for the type, on tiles or vectors; Skip if the CPU has none."""
    dtype = str(point["dtype"])
    tiles = find_tile_dot(dtype)
    refused = refusal() if tiles is not None else None
    if tiles is not None and refused is None:
        return narrow_task(point, cpu_tiles.unit(tiles), {})
    dot = find_dot(dtype)
    if dot is None:
        reason = f"this CPU has no supported instruction for {dtype} arithmetic"
        raise Skip(reason if refused is None else f"{reason} except on tiles: {refused}")
    unused = {} if refused is None else {f"tiles (not used, because {refused})": Metric(0)}
    return narrow_task(point, unit(dot), unused)
