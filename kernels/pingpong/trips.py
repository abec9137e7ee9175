"""Task of the implementations of pingpong: the timed round trips, and the check of the returned message."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from accelbench.kernels.lib.ranks.lockstep import Lockstep, RankSteps, lockstep_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

Trips = Callable[[Any, Any, int], object]
"""Function `trips(payload, returned, loops)`: rank 0 sends the first array and receives into the second; the last rank
receives into the first array and sends it back."""


class MessageMemory(Protocol):
    """Interface of the memory that holds the messages."""

    def empty(self, size: int) -> Any:
        """Return an uninitialised array of `size` bytes."""

    def put(self, array: Any, begin: int, values: Any) -> None:
        """Write host values to the array from the element `begin` on."""

    def get(self, array: Any, begin: int, end: int) -> Any:
        """Return the elements [begin, end) as a host array."""


class HostBuffers:
    """NumPy arrays in host memory."""

    def empty(self, size: int) -> Any:
        return np.empty(size, np.uint8)

    def put(self, array: Any, begin: int, values: Any) -> None:
        array[begin : begin + len(values)] = values

    def get(self, array: Any, begin: int, end: int) -> Any:
        return array[begin:end]


HOST = HostBuffers()


def require_host_memory(point: Point, here: World) -> None:
    """Skip if two buffers for each rank on this host need more than half of its available memory."""
    require_memory(2 * int(point["bytes"]) * here.local_size)


def make_task(point: Point, trips: Trips, steps: Lockstep, here: World, memory: MessageMemory = HOST) -> Task:
    """Return this rank's task: one execution is one round trip, which carries the message twice.

    The time is measured by rank 0, at which a round trip begins and ends. In timed executions the message is received
    into the array from which it was sent, as in NetPIPE, because a second array would occupy as much cache again. In
    the check it is received into a second array.
    """
    size, first, last = int(point["bytes"]), here.rank == 0, here.rank == here.size - 1
    rng = np.random.default_rng([point.seed, here.rank])
    payload = memory.empty(size)
    returned = memory.empty(size) if first else payload

    def run(loops: int) -> None:
        if first or last:
            trips(payload, payload, loops)

    def draw() -> None:
        """Write a fresh random message on rank 0, and its complement to the array that receives it in the check."""
        drawn = np.frombuffer(rng.bytes(size), np.uint8)
        memory.put(payload, 0, drawn)
        if first:
            memory.put(returned, 0, np.invert(drawn))

    def check() -> dict[str, int]:
        draw()
        if first or last:
            trips(payload, returned, 1)
        sent, back = memory.get(payload, 0, size), memory.get(returned, 0, size)
        return {"wrong": int(np.count_nonzero(back != sent)), "sum": zlib.crc32(sent.data)}

    draw()
    return lockstep_task(
        steps,
        RankSteps(run, check),
        judge,
        Work(bytes=2 * size),
        lambda seconds: {"latency": Metric(seconds / 2, "s")},
        seconds=itemgetter(0),
    )


def judge(found: list[dict[str, int]]) -> Verification:
    """Check that every byte came back, and that the last rank received the message, by its checksum."""
    wrong, arrived = found[0]["wrong"], found[0]["sum"] == found[-1]["sum"]
    return Verification(
        passed=wrong == 0 and arrived,
        method="random bytes, compared one by one on return, and by checksum at the last rank",
        expected="0 wrong, arrived",
        found=f"{wrong:,} wrong, {'arrived' if arrived else 'others arrived'}",
    )
