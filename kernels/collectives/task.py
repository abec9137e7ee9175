"""Task of the implementations of collectives: buffers, timed operation, and the check of each rank's result."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from accelbench.kernels.collectives.messages import Message, bus_factor, message
from accelbench.kernels.collectives.reference import PIECE, error, numbers, tolerance
from accelbench.kernels.lib.ranks.lockstep import Lockstep, RankSteps, lockstep_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

SMALL = 1024
"""Largest message in bytes for which the time is also reported as latency."""
BUFFERS = 3
"""Maximum memory of a rank in messages: source, target, and the library's internal copy."""

Run = Callable[[int], object]


class Engine(Protocol):
    """Interface of a communication library after its initialisation."""

    @property
    def trains(self) -> bool:
        """Whether training frameworks exchange gradients by this library."""

    @property
    def overwrites(self) -> tuple[str, ...]:
        """Operations that work in place: they overwrite the rank's input by the result."""

    def empty(self, elements: int) -> Any:
        """Return an uninitialised float32 array that the library can send and receive."""

    def put(self, array: Any, begin: int, values: Any) -> None:
        """Write host values to the array from the element `begin` on."""

    def get(self, array: Any, begin: int, end: int) -> Any:
        """Return the elements [begin, end) as a host array."""

    def copy(self, source: Any, target: Any) -> None:
        """Copy the source to the target, which has the same length."""

    def operation(self, op: str, source: Any, target: Any) -> Run:
        """Return `run(loops)`, which executes the operation `loops` times and waits for completion.

        The operations in `overwrites` read their input from the target.
        """


class HostArrays:
    """NumPy arrays, for libraries that communicate host memory."""

    trains = False
    overwrites: tuple[str, ...] = ("broadcast",)

    def empty(self, elements: int) -> Any:
        return np.empty(elements, np.float32)

    def put(self, array: Any, begin: int, values: Any) -> None:
        array[begin : begin + len(values)] = values

    def get(self, array: Any, begin: int, end: int) -> Any:
        return array[begin:end]

    def copy(self, source: Any, target: Any) -> None:
        target[:] = source


def require_host_memory(point: Point, here: World) -> None:
    """Skip if the buffers of all ranks on this host need more than half of its available memory."""
    size = message(str(point["op"]), int(point["bytes"]), here.size).bytes
    require_memory(BUFFERS * size * here.local_size)


def make_task(point: Point, engine: Engine, steps: Lockstep, here: World) -> Task:
    """Return this rank's task of the point's operation.

    The input of an in-place operation is restored before each sample, untimed, so that large sums stay in range. With
    many executions per sample, small sums may reach infinity, which takes the same time to add.
    """
    op, ranks, rank = str(point["op"]), here.size, here.rank
    sizes = message(op, int(point["bytes"]), ranks)
    source, target = engine.empty(sizes.source), engine.empty(sizes.target)
    run = engine.operation(op, source, target)
    gives = rank == 0 or op != "broadcast"
    round_ = 0

    def draw() -> int:
        """Write fresh random inputs and poison the target with NaN; return the seed, the same on all ranks."""
        nonlocal round_
        round_ += 1
        seed = point.seed * (1 << 32) + round_
        for begin in range(0, sizes.source, PIECE):
            end = min(begin + PIECE, sizes.source)
            drawn = numbers(seed, rank, begin, end) if gives else np.full(end - begin, np.nan, np.float32)
            engine.put(source, begin, drawn)
        for begin in range(0, sizes.target, PIECE):
            end = min(begin + PIECE, sizes.target)
            engine.put(target, begin, np.full(end - begin, np.nan, np.float32))
        return seed

    def load() -> None:
        if op in engine.overwrites and gives:
            engine.copy(source, target)

    def check() -> float:
        seed = draw()
        load()
        run(1)
        worst = 0.0
        for begin in range(0, sizes.target, PIECE):
            found = engine.get(target, begin, min(begin + PIECE, sizes.target))
            worst = max(worst, error(found, op, seed, rank, ranks, sizes.target, begin))
        return worst

    draw()
    limit = tolerance(op, ranks)
    added_up = sizes.bytes if op == "all-reduce" and engine.trains else None
    work = Work(bytes=sizes.bytes, all_reduced=added_up)
    metrics = partial(link_metrics, op, sizes, ranks)
    return lockstep_task(steps, RankSteps(run, check, load), lambda errors: judge(errors, op, limit), work, metrics)


def link_metrics(op: str, sizes: Message, ranks: int, seconds: float) -> dict[str, Metric]:
    """Return the bus bandwidth, and the latency of a small message."""
    found = {"bus_bandwidth": Metric(sizes.bytes / seconds * bus_factor(op, ranks), "B/s")}
    return found | ({"latency": Metric(seconds, "s")} if sizes.bytes <= SMALL else {})


def judge(errors: list[float], op: str, limit: float, member: str = "rank") -> Verification:
    """Compare the largest error of all ranks, or other members, with the tolerance; the method names the member."""
    worst = max(range(len(errors)), key=errors.__getitem__)
    against = "float64 sums, relative to the summed magnitudes" if limit else "the sent numbers, exactly"
    return Verification(
        passed=errors[worst] <= limit,
        method=(
            f"{op} of random numbers on all {len(errors)} {member}s against {against}; "
            f"largest error on {member} {worst}"
        ),
        error=errors[worst] if math.isfinite(errors[worst]) else float(np.finfo(np.float64).max),
        tolerance=limit,
    )
