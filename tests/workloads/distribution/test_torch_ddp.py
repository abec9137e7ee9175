"""Several processes of PyTorch learn what one does, by DistributedDataParallel under Keras's `fit`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiling.benchmark import Skip
from profiling.ranks.world import World, join
from profiling.records.point import Point
from tests.conftest import Run, records
from tests.workloads.distribution.engines import (
    TOLERANCE,
    Found,
    assert_learnt_alike,
    assert_shared_out,
    metrics_of,
    train,
)
from workloads.distribution.find import strategy_of
from workloads.distribution.sockets import meet_directly

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone() -> Found:
    (found,) = train("learn", "torch", 1)
    return found


@pytest.fixture(scope="module")
def together() -> list[Found]:
    return train("learn", "torch", 2)


@pytest.mark.needs("torch")
def test_two_processes_learn_what_one_does(alone: Found, together: list[Found]) -> None:
    for rank in together:
        assert rank["history"]["loss"] == pytest.approx(alone["history"]["loss"], rel=TOLERANCE)
        assert rank["history"]["accuracy"] == pytest.approx(alone["history"]["accuracy"])
        assert_learnt_alike(rank["metrics"], alone["metrics"])
    assert_shared_out([rank["metrics"] for rank in together], alone["metrics"])


@pytest.mark.needs("torch")
def test_every_rank_says_which_step_it_is_at(together: list[Found]) -> None:
    assert [(rank["steps"], rank["stage"]) for rank in together] == [(24, "step")] * 2


@pytest.mark.needs("torch")
def test_the_exchange_alone_changes_nothing_and_training_apart_waits_for_nobody(
    alone: Found, together: list[Found]
) -> None:
    for rank in together:
        assert rank["bytes"] == 4 * (8 * 16 + 16 + 16 * 4 + 4)
        assert_learnt_alike(rank["metrics_exchanged"], alone["metrics"])
    assert together[1]["metrics_apart"] == together[1]["metrics_exchanged"]
    with pytest.raises(AssertionError):
        assert_learnt_alike(together[0]["metrics_apart"], together[1]["metrics_apart"])


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"jit_compile": "on"}, marks=[pytest.mark.exhaustive, pytest.mark.needs("g++")])]
)
def test_in_one_process_the_strategy_learns_what_none_does(alone: Found, options: dict[str, str]) -> None:
    (found,) = train("learn", "torch", 1, strategy="ddp", **options)
    assert_learnt_alike(found["metrics"], alone["metrics"])
    assert "bytes" not in found  # there is nothing to exchange


@pytest.mark.needs("torch")
def test_replicas_normalise_by_themselves_and_are_alike_after_an_epoch() -> None:
    first, second = train("normalised", "torch", 2)
    for name in ("weights", "history", "predicted", "predicted_of_generator"):
        assert first[name] == second[name]


@pytest.mark.needs("torch")
def test_launched_ranks_are_compared_with_one_process(accelbench: Run, tmp_path: Path, alone: Found) -> None:
    """Replicas that by intention do not tell each other what they learnt are caught by the very comparison."""
    command = ("run", "learn", "--no-ceilings", "--backend", "torch", "--param", "sync=on,off", "--out", "run")
    process = accelbench("launch", "--procs", "2", *command)
    assert process.returncode == 0, process.stdout + process.stderr
    synchronised, apart = records(tmp_path / "run")
    for found in metrics_of(synchronised):
        assert_learnt_alike(found, alone["metrics"])
    assert_shared_out(metrics_of(synchronised), alone["metrics"])
    for found in metrics_of(apart):
        with pytest.raises(AssertionError):
            assert_learnt_alike(found, alone["metrics"])


@pytest.mark.parametrize(
    ("params", "backend", "reason"),
    [
        (
            {"batch": 8, "devices": 2},
            "torch",
            "torch has no strategy for this many .*: strategy=ddp only with",
        ),
        ({"batch": 8, "strategy": "ddp"}, "jax", "strategy=ddp only with backend=torch"),
    ],
)
def test_what_cannot_be_is_skipped_with_the_reason(params: dict[str, str | int], backend: str, reason: str) -> None:
    with pytest.raises(Skip, match=reason):
        strategy_of(Point("some", "cpu", params, backend))


@pytest.fixture
def of_two_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a rank whose fellow is on another host."""
    found = {"http_proxy": "http://proxy:3128", "no_proxy": "localhost"}
    monkeypatch.setattr(os, "environ", found)
    join(World(rank=0, size=2, addresses=["127.0.0.1:1000", "10.1.2.3:1000"]))
    yield found
    join(World())


def test_ranks_meet_by_their_own_addresses_and_by_no_proxy(of_two_here: dict[str, str]) -> None:
    meet_directly()
    assert of_two_here["GLOO_SOCKET_IFNAME"] == "lo"
    assert of_two_here["NCCL_SOCKET_IFNAME"] == "=lo"
    assert of_two_here["no_grpc_proxy"] == "10.1.2.3,127.0.0.1,localhost"


def test_an_interface_that_the_user_named_is_left_alone(of_two_here: dict[str, str]) -> None:
    of_two_here["GLOO_SOCKET_IFNAME"] = "ib0"
    del of_two_here["http_proxy"]
    meet_directly()
    assert of_two_here["GLOO_SOCKET_IFNAME"] == "ib0"
    assert "no_grpc_proxy" not in of_two_here
