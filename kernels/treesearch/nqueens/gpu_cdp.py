"""N-Queens on a GPU by dynamic parallelism: GPU threads enumerate prefixes and launch the kernels that search them.

The CPU enumerates the placements of the first rows, thousands of them. Each thread of the parent kernel enumerates the
prefixes below one placement and launches a child kernel, which searches below one prefix per thread. The prefixes, the
search below them, and the counted nodes are the same as in `prefix`. There, the CPU enumerates the prefixes before the
measurement; here, the measured time includes their enumeration on the device (its nodes are not counted) and the
launches.

A child is launched into the stream `cudaStreamFireAndForget`: children run at the same time, in any order, and the
parent is complete when they are. A thread launches at most one child, and a parent kernel has at most `MAX_LAUNCHES`
threads, so that the default number of pending launches suffices; parents with more placements follow each other.

Bound: as of `prefix`, integer instructions. Compiled for 9.0, the parent has 30 registers, the child 18 and 9 KiB of
shared memory per block at 16 queens, as in `prefix`; no spills. Not run on a GPU; the PTX interpreter of the tests
executes both kernels.

Source: Carneiro Pessoa, Gmys, de Carvalho Júnior, Melab, Tuyttens, "GPU-accelerated backtracking using CUDA Dynamic
Parallelism", Concurrency and Computation: Practice and Experience, 2018; CUDA C++ Programming Guide, "CUDA Dynamic
Parallelism", its version for CUDA 12 and later, which has no synchronisation with children on the device.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.kernels.lib.gpu.machine_code import compile_cuda, link_device_runtime, load_machine_code
from accelbench.kernels.treesearch.nqueens.device_counts import DeviceCounts, gpu_task
from accelbench.kernels.treesearch.nqueens.gpu_prefix import MIN_PREFIXES
from accelbench.kernels.treesearch.nqueens.prefixes import Prefixes, enumerate_prefixes, next_row
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_stream, require_device_memory
from accelbench.profiling.machine.nvidia.cuda import compute_capability, library
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

SOURCE = Path(__file__).with_name("cdp.cu").read_text(encoding="utf-8")
PARENT, CHILD = "nqueens_expand", "nqueens_search"
PARENT_THREADS = 32
THREADS = 64
"""Threads of a block of the child kernel."""
MIN_PLACEMENTS = 4 * 132
"""Minimum placements of the parent kernel: four children for each of 132 multiprocessors."""
MAX_LAUNCHES = 2048
"""Maximum launches of a parent kernel: the default of `cudaLimitDevRuntimePendingLaunchCount`."""


def prepare(point: Point) -> Task:
    """Return the point's task; Skip if the device runtime is not installed, or too little memory is free."""
    queens = int(point["queens"])
    placements, prefixes = enumerate_prefixes(queens, MIN_PLACEMENTS), enumerate_prefixes(queens, MIN_PREFIXES)
    require_device_memory(20 * len(prefixes))
    xp = library("cupy")
    counts = DeviceCounts(prefixes)
    given, starts = xp.asarray(words_of(placements)), xp.asarray(starts_below(placements, prefixes.depth))
    written = xp.empty((len(prefixes), 3), np.uint32)
    results = xp.asarray(counts.nodes), xp.asarray(counts.solutions)
    kernel = load(options(queens, placements.depth, prefixes.depth))
    launches = [
        (-(-len(part) // PARENT_THREADS), (given[part.start :], starts[part.start :], np.uint32(len(part))))
        for part in parts(len(placements))
    ]

    def run(stream: int = 0) -> None:
        with cupy_stream(stream):
            for grid, arguments in launches:
                kernel((grid,), (PARENT_THREADS,), (*arguments, written, *results))

    return gpu_task(point, counts, run)


def words_of(prefixes: Prefixes) -> Any:
    """Return the placements as (number, 3) uint32: columns, left, right."""
    return np.stack([prefixes.columns, prefixes.left, prefixes.right], axis=1)


def starts_below(placements: Prefixes, depth: int) -> Any:
    """Return the number of prefixes of `depth` rows that precede those below each placement, as uint32."""
    board = np.uint32((1 << placements.queens) - 1)
    origins = np.arange(len(placements))
    columns, left, right = placements.columns, placements.left, placements.right
    for _ in range(placements.depth, depth):
        origins = np.repeat(origins, np.bitwise_count(board & ~(columns | left | right)))
        columns, left, right = next_row(board, columns, left, right)
    return np.searchsorted(origins, np.arange(len(placements))).astype(np.uint32)


def parts(placements: int) -> list[range]:
    """Return the placements of each parent kernel: parts of about equal size, with at most `MAX_LAUNCHES` each."""
    number = -(-placements // MAX_LAUNCHES)
    bounds = [placements * part // number for part in range(number + 1)]
    return [range(first, last) for first, last in pairwise(bounds)]


def options(queens: int, placed: int, prefix: int) -> tuple[str, ...]:
    """Return the compiler options for placements of `placed` rows and prefixes of `prefix` rows."""
    defined = {"QUEENS": queens, "PARENT_ROWS": placed, "PREFIX_ROWS": prefix, "THREADS": THREADS}
    flags = (f"-D{name}={value}" for name, value in defined.items())
    return ("--std=c++17", "--relocatable-device-code=true", *flags)


def load(flags: tuple[str, ...]) -> Any:
    """Return the parent kernel on the current device, which needs the device runtime to launch the child kernel."""
    architecture = "sm_{}{}".format(*compute_capability())
    return load_machine_code(machine_code(flags, architecture)).get_function(PARENT)


def machine_code(flags: tuple[str, ...], architecture: str) -> bytes:
    """Return the cubin of both kernels, linked with the device runtime."""
    target = architecture.replace("sm_", "compute_")  # without machine code
    ptx = compile_cuda(SOURCE, (f"--gpu-architecture={target}", *flags), "PTX")
    return link_device_runtime(ptx, architecture)


def device_code() -> list[DeviceKernel]:
    """Return the parent and the child as launched for 16 queens, with 3 rows placed by the CPU and 10 by the child."""
    flags = options(16, 3, 6)
    return [
        CudaKernel("nqueens cdp parent", PARENT, SOURCE, flags, unit="node", capability=(7, 5)),
        CudaKernel("nqueens cdp child", CHILD, SOURCE, flags, unit="node", capability=(7, 5)),
    ]
