"""Ranks as threads of this process, connected by real sockets."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from accelbench.profiling.benchmark import Task
from accelbench.profiling.ranks.channel import free_port
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.quality import Verification

Found = TypeVar("Found")


def worlds(size: int) -> list[World]:
    """Return the worlds of `size` ranks on this host."""
    addresses = [f"127.0.0.1:{free_port('127.0.0.1')}" for _ in range(size)]
    secret = secrets.token_hex(32)
    return [
        World(rank=rank, size=size, local_rank=rank, local_size=size, addresses=addresses, secret=secret)
        for rank in range(size)
    ]


def in_ranks(size: int, do: Callable[[World], Found]) -> list[Found]:
    """Run all ranks concurrently and return their results; raise the first error."""
    with ThreadPoolExecutor(size) as pool:
        running = [pool.submit(do, here) for here in worlds(size)]
    return [each.result() for each in running]


def verified(size: int, prepare: Callable[[World], Task], times: int = 1) -> Verification:
    """Return rank 0's last verification, while the other ranks follow; samples are taken before and after it."""

    def do(here: World) -> Verification | None:
        task = prepare(here)
        assert task.together
        if here.rank > 0:
            task.together.follow()
            return None
        assert task.sample
        try:
            task.run()
            for _ in range(times):
                verdict = task.verify()
                assert task.sample(3) > 0
            return verdict
        finally:
            task.together.finish()

    verdict = in_ranks(size, do)[0]
    assert verdict is not None
    return verdict
