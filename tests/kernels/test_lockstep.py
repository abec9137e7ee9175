"""Lockstep execution of ranks."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.ranks import lockstep
from accelbench.kernels.lib.ranks.lockstep import Lockstep, RankSteps, Task, lockstep_task, nothing
from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.ranks.rendezvous import UnauthenticatedPeer, connect
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from tests.kernels.in_ranks import in_ranks, worlds


def judge(found: list[Any]) -> Verification:
    return Verification(passed=True, method="counted", found=str(found))


def task(here: World, part: RankSteps) -> Task:
    return lockstep_task(Lockstep(here), part, judge, Work(items=1), lambda seconds: {})


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_rank_gets_every_value_in_order(size: int) -> None:
    def exchange(here: World) -> list[list[Any]]:
        steps = Lockstep(here)
        return [steps.exchange([here.rank, time]) for time in range(3)]

    expected = [[[rank, time] for rank in range(size)] for time in range(3)]
    assert in_ranks(size, exchange) == [expected] * size


commands = st.lists(st.one_of(st.just("run"), st.just("verify"), st.integers(1, 5)), max_size=8)


@settings(max_examples=20, deadline=None)
@given(size=st.integers(2, 4), asked=commands)
def test_all_ranks_execute_as_often_and_in_the_same_order(size: int, asked: list[Any]) -> None:
    def do(here: World) -> list[Any]:
        done: list[Any] = []
        part = RankSteps(run=done.append, check=lambda: done.append("check"), load=lambda: done.append("load"))
        own = task(here, part)
        assert own.together
        if here.rank > 0:
            own.together.follow()
            return done
        assert own.sample
        for what in asked:
            own.run() if what == "run" else own.verify() if what == "verify" else own.sample(what)
        own.together.finish()
        return done

    steps = {"run": ["load", 1], "verify": ["check"]}
    expected = [step for what in asked for step in steps.get(what, ["load", 1, what])]
    assert in_ranks(size, do) == [expected] * size


def test_a_sample_takes_as_long_as_its_slowest_rank() -> None:
    def do(here: World) -> float:
        own = task(here, RankSteps(run=lambda loops: time.sleep(0.02 * here.rank * loops), check=nothing))
        assert own.together
        if here.rank > 0:
            own.together.follow()
            return 0.0
        assert own.sample
        seconds = own.sample(2)
        own.together.finish()
        return seconds

    assert in_ranks(3, do)[0] >= 0.04  # each execution: the two sleeps of rank 2


def test_the_results_of_all_ranks_are_verified() -> None:
    def do(here: World) -> Any:
        own = task(here, RankSteps(run=lambda loops: None, check=lambda: here.rank * 10))
        assert own.together
        if here.rank > 0:
            return own.together.follow()
        verdict = own.verify()
        own.together.finish()
        return verdict.found

    assert in_ranks(3, do)[0] == "[0, 10, 20]"


@pytest.mark.parametrize(("gone", "waits"), [(1, 0), (2, 0), (0, 1)])
def test_waiting_for_an_ended_rank_raises_an_error_with_its_number(gone: int, waits: int) -> None:
    def do(here: World) -> str | None:
        steps = Lockstep(here)
        steps.exchange(None)
        if here.rank != waits:
            if here.rank != gone:
                steps._send(value=None)
            return None
        with pytest.raises(ConnectionError) as caught:
            steps.exchange(None)
        return str(caught.value)

    assert in_ranks(max(gone, waits) + 1, do)[waits] == f"rank {gone} has ended"


def test_a_rank_that_leaves_ends_those_that_follow() -> None:
    def do(here: World) -> None:
        steps = Lockstep(here)
        own = lockstep_task(steps, RankSteps(run=lambda loops: None, check=nothing), judge, Work(), lambda seconds: {})
        assert own.together
        if here.rank > 0:
            with pytest.raises(ConnectionError, match="rank 0 has ended"):
                own.together.follow()
        else:
            own.run()
            steps.close()
            steps.close()

    in_ranks(3, do)


def test_followers_end_with_rank_0_wherever_they_are() -> None:
    """Rank 0 ends after sending the command for a sample and before starting it."""

    def do(here: World) -> None:
        steps = Lockstep(here)
        part = RankSteps(run=lambda loops: None, check=nothing)
        own = lockstep_task(steps, part, judge, Work(), lambda seconds: {})
        assert own.together
        if here.rank > 0:
            own.together.follow()
        else:
            steps.send_command(["timed", 3])
            own.together.finish()

    in_ranks(2, do)


def test_waiting_for_a_missing_rank_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "MEET_SECONDS", 0.2)
    first, second = worlds(2)
    with pytest.raises(TimeoutError):
        Lockstep(first)
    with pytest.raises(ConnectionRefusedError):
        Lockstep(second)


def test_unauthenticated_peers_and_ranks_of_another_point_are_rejected() -> None:
    """They connect first, to the port of rank 0: silently, with a partial message, and with another secret."""
    first, second = worlds(2)
    address = Address.parse(first.addresses[0])
    with ThreadPoolExecutor() as pool, ExitStack() as stack:
        meeting = pool.submit(Lockstep, first)
        while not (come := connected(address)):
            time.sleep(0.01)
        stack.enter_context(come)
        half = stack.enter_context(socket.create_connection(address))
        half.sendall(b'{"nonce": ')
        with pytest.raises(UnauthenticatedPeer):
            connect(address, 0.2, "the secret of another point", rank=1)
        other = Lockstep(second)
        asked = pool.submit(other.exchange, "from 1")
        assert meeting.result().exchange("from 0") == asked.result() == ["from 0", "from 1"]
        for each in (meeting.result(), other):
            each.close()


def connected(address: Address) -> socket.socket | None:
    with suppress(ConnectionRefusedError):
        return socket.create_connection(address)
    return None
