"""Empirical peak of int8 and bfloat16 on CPUs with AMX, by independent chains of tile instructions.

Bound: the tile multiplication unit of a core. It starts an instruction every 16 cycles (Intel's optimisation manual,
for Sapphire Rapids): 2,048 operations per cycle in int8 and 1,024 in bfloat16, eight times as much as two 512-bit
vector units. Two tiles of A, two of B and four of sums stay in registers for all steps of a round.

Share of the bound: not measured; the code has never run on a CPU with AMX (see `accelbench.kernels.lib.cpu.amx`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.amx import (
    COLUMNS,
    HELD,
    ROWS,
    TILE_BYTES,
    TILE_CHAINS,
    TILE_SUMS,
    TileDot,
    configure_tiles,
    interleaved,
    release_tiles,
    run_tile_chains,
)
from accelbench.kernels.lib.cpu.threads import compiled, parallel
from accelbench.kernels.peak_arith.narrow_task import ExactNumbers, InstructionKernels, to_bytes

# |start| + steps·32·largest_factor² is at most 2²³ + 2¹⁴·32·4² = 2²⁴ in float32. 16·16,384 steps of four instructions
# are 17 million cycles, some 6 ms, so that the time to wake the threads is negligible.
NUMBERS = {"int8": ExactNumbers(1 << 30, 127, 1 << 14, 16), "bfloat16": ExactNumbers(1 << 23, 4, 1 << 14, 16)}


@compiled
def run_rounds(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Advance the sums of every round by `steps` instructions per tile; the thread configures and releases tiles."""
    configure_tiles()
    for start in range(0, len(sums), stride):
        run_tile_chains(sums, start, factors, steps)
    release_tiles()


@parallel
def run_on_all(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Call `run_rounds` on every thread, with row t of `sums` and `factors` for thread t."""
    for thread in prange(len(sums)):
        run_rounds(sums[thread], factors[thread], steps, stride)


def unit(dot: TileDot) -> InstructionKernels:
    """Return the measured kernels of an instruction: `TILE_CHAINS` tiles of sums."""
    numbers = NUMBERS[dot.dtype]

    def draw(rng: np.random.Generator, threads: int) -> tuple[Any, Any, Any]:
        a = numbers.draw_factors(rng, (threads, HELD, ROWS, dot.depth))
        b = numbers.draw_factors(rng, (threads, HELD, dot.depth, COLUMNS))
        stored = (to_bytes(x.reshape(threads, -1), dot.dtype) for x in (a, interleaved(b, dot.group)))
        return *stored, np.einsum("timk,tjkn->tijmn", a, b).reshape(threads, -1)

    return InstructionKernels(
        *(dot.name, dot.dtype, numbers, dot.flops, TILE_CHAINS),
        sums=TILE_CHAINS * TILE_SUMS,
        factor_bytes=HELD * TILE_BYTES,
        draw=draw,
        run_rounds=run_rounds,
        run_on_all=run_on_all,
    )
