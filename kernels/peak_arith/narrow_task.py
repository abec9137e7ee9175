"""Task of the arithmetic peak of narrow types: whole numbers with exact sums, and the check of each sum.

int32 sums wrap around, as NumPy's do, for any factors. Floating-point sums are whole numbers of at most 2²⁴ in float32
and 2¹¹ in float16, which no rounding changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.clock import observed_clock
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.formats import to_storage
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

KEPT = {"int8": np.int32, "bfloat16": np.float32, "float16": np.float16}
"""Types of the sums."""


@dataclass(frozen=True)
class ExactNumbers:
    """Ranges of whole numbers for which the sums of a type are exact, and the number of additions."""

    largest_start: int
    largest_factor: int
    steps: int
    """Instructions of each chain in a round."""
    rounds: int
    """Rounds of an execution, each with its own initial sums."""

    def draw_factors(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Return random whole factors, never 0, of both signs."""
        return rng.integers(1, self.largest_factor, shape, endpoint=True) * rng.choice((-1, 1), shape)


@dataclass(frozen=True)
class InstructionKernels:
    """An instruction and the kernels that repeat it; each step of a round advances every sum."""

    instruction: str
    dtype: str
    numbers: ExactNumbers
    flops: int
    """Operations of one instruction."""
    chains: int
    """Instructions of a step."""
    sums: int
    """Sums of a round."""
    factor_bytes: int
    """Bytes of the first factors in registers; the second factors have the same size."""
    draw: Callable[[np.random.Generator, int], tuple[Any, Any, Any]]
    """Function of (generator, threads) that returns the bytes of both factors for all threads, and the increment of
    each sum in a step."""
    run_rounds: Callable[[Any, Any, int, int], None]
    """Function of (sums, factors, steps, sums of a round) that advances the sums of every round of one thread."""
    run_on_all: Callable[[Any, Any, int, int], None]
    """Function that does the same on every thread, each with a row of sums and factors."""


def to_bytes(numbers: Any, dtype: str, unsigned: bool = False) -> Any:
    """Return whole numbers (…, n) as the bytes of registers."""
    stored = (
        numbers.astype(np.uint8) if unsigned else np.ascontiguousarray(to_storage(numbers.astype(np.float32), dtype))
    )
    return stored.view(np.uint8)


def narrow_task(point: Point, unit: InstructionKernels, additional: Mapping[str, Metric]) -> Task:
    """Return the task that measures the rate of an instruction; `additional` metrics are reported as well."""
    dtype, numbers = unit.dtype, unit.numbers
    threads = thread_count() if point["cores"] == "all" else 1
    rng = point.rng()
    kept = KEPT[dtype]
    sums = np.empty((threads, numbers.rounds * unit.sums), kept)
    words = sums.view(np.uint16) if dtype == "float16" else sums
    half = unit.factor_bytes
    factors = np.empty((threads, 2 * half), np.uint8)

    def draw() -> Any:
        """Write random sums and factors, and return the increments of the sums of a round in a step."""
        sums[:] = rng.integers(-numbers.largest_start, numbers.largest_start, sums.shape, endpoint=True)
        factors[:, :half], factors[:, half:], each = unit.draw(rng, threads)
        return each

    def execute() -> None:
        if threads == 1:
            unit.run_rounds(words[0], factors[0], numbers.steps, unit.sums)
        else:
            unit.run_on_all(words, factors, numbers.steps, unit.sums)

    def run() -> None:
        # The sign of the second factors alternates, so that repetition returns the sums to their initial values.
        execute()
        turned = factors[:, half:]
        if dtype == "int8":
            np.negative(turned.view(np.int8), out=turned.view(np.int8))
        else:
            turned[:, 1::2] ^= 0x80

    def verify() -> Verification:
        change = numbers.steps * np.tile(draw(), numbers.rounds)
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

    flops = threads * numbers.rounds * numbers.steps * unit.chains * unit.flops

    def metrics(seconds: float) -> dict[str, Metric]:
        clock = observed_clock(threads, point.seed)
        return {
            "clock": Metric(clock / 1e6, "MHz"),
            "arithmetic per core": Metric(flops / seconds / clock / threads, "FLOP/cycle"),
            f"arithmetic of one {unit.instruction}": Metric(unit.flops, "FLOP"),
            "threads": Metric(threads),
            **additional,
        }

    draw()
    return Task(run=run, verify=verify, work=Work(flops=flops), metrics=metrics)
