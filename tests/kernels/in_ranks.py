"""Ranks as threads of this process, with real sockets between them: what each returns, or the first error."""

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
    """The places of so many ranks on this host."""
    addresses = [f"127.0.0.1:{free_port('127.0.0.1')}" for _ in range(size)]
    secret = secrets.token_hex(32)
    return [
        World(rank=rank, size=size, local_rank=rank, local_size=size, addresses=addresses, secret=secret)
        for rank in range(size)
    ]


def in_ranks(size: int, do: Callable[[World], Found]) -> list[Found]:
    """Return what each of the ranks found; all of them run at once."""
    with ThreadPoolExecutor(size) as pool:
        running = [pool.submit(do, here) for here in worlds(size)]
    return [each.result() for each in running]


def verified(size: int, prepare: Callable[[World], Task], times: int = 1) -> Verification:
    """Rank 0's last verdict, while the others follow; before it, and after, samples are taken as the timer does."""

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
