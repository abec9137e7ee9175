"""Two processes of JAX or PyTorch learn what one does.

JAX trains by Keras's DataParallel over all devices, PyTorch by DistributedDataParallel under Keras's `fit`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.find import strategy_of
from tests.conftest import Run, records
from tests.workloads.distribution.engines import (
    TOLERANCE,
    Found,
    assert_learnt_alike,
    assert_shared_out,
    metrics_of,
    train,
)

pytestmark = pytest.mark.slow

STRATEGIES = {"jax": "data-parallel", "torch": "ddp"}
with_torch = pytest.mark.needs("torch")
backends = pytest.mark.parametrize("backend", ["jax", pytest.param("torch", marks=with_torch)])


@cache
def alone(backend: str) -> Found:
    (found,) = train("learn", backend, 1)
    return found


@cache
def together(backend: str) -> list[Found]:
    return train("learn", backend, 2)


@backends
def test_two_processes_learn_what_one_does(backend: str) -> None:
    expected = alone(backend)
    for rank in together(backend):
        assert rank["history"]["loss"] == pytest.approx(expected["history"]["loss"], rel=TOLERANCE)
        assert rank["history"]["accuracy"] == pytest.approx(expected["history"]["accuracy"])
        assert_learnt_alike(rank["metrics"], expected["metrics"])
    assert_shared_out([rank["metrics"] for rank in together(backend)], expected["metrics"])


@backends
def test_every_rank_publishes_its_step(backend: str) -> None:
    assert [(rank["steps"], rank["stage"]) for rank in together(backend)] == [(24, "step")] * 2


@backends
def test_the_exchange_alone_changes_nothing_and_isolated_training_waits_for_no_rank(backend: str) -> None:
    ranks = together(backend)
    for rank in ranks:
        assert rank["bytes"] == 4 * (8 * 16 + 16 + 16 * 4 + 4)
        assert_learnt_alike(rank["metrics_exchanged"], alone(backend)["metrics"])
    assert ranks[1]["metrics_apart"] == ranks[1]["metrics_exchanged"]
    with pytest.raises(AssertionError):
        assert_learnt_alike(ranks[0]["metrics_apart"], ranks[1]["metrics_apart"])


@backends
def test_in_one_process_the_strategy_learns_what_none_does(backend: str) -> None:
    (found,) = train("learn", backend, 1, strategy=STRATEGIES[backend])
    assert_learnt_alike(found["metrics"], alone(backend)["metrics"])
    assert "bytes" not in found  # there is nothing to exchange


@pytest.mark.exhaustive
@pytest.mark.needs("torch", "g++")
def test_a_compiled_model_of_pytorch_learns_what_an_interpreted_one_does() -> None:
    (found,) = train("learn", "torch", 1, strategy="ddp", jit_compile="on")
    assert_learnt_alike(found["metrics"], alone("torch")["metrics"])


@pytest.mark.parametrize(
    "backend", [pytest.param("jax", marks=pytest.mark.exhaustive), pytest.param("torch", marks=with_torch)]
)
def test_launched_ranks_are_compared_with_one_process(backend: str, accelbench: Run, tmp_path: Path) -> None:
    """The comparison finds replicas that do not exchange their gradients (`sync=off`)."""
    command = ("run", "learn", "--no-ceilings", "--backend", backend, "--param", "sync=on,off", "--out", "run")
    process = accelbench("launch", "--procs", "2", *command)
    assert process.returncode == 0, process.stdout + process.stderr
    synchronised, apart = records(tmp_path / "run")
    for found in metrics_of(synchronised):
        assert_learnt_alike(found, alone(backend)["metrics"])
    assert_shared_out(metrics_of(synchronised), alone(backend)["metrics"])
    for found in metrics_of(apart):
        with pytest.raises(AssertionError):
            assert_learnt_alike(found, alone(backend)["metrics"])


def test_two_devices_of_two_jax_processes_learn_what_one_does() -> None:
    for rank in train("learn", "jax", 2, devices=2):
        assert_learnt_alike(rank["metrics"], alone("jax")["metrics"])


def test_jax_normalises_over_the_whole_batch_and_every_rank_predicts_everything() -> None:
    (expected,) = train("normalised", "jax", 1)
    for rank in train("normalised", "jax", 2):
        assert rank["history"]["loss"] == pytest.approx(expected["history"]["loss"], rel=TOLERANCE)
        for name in ("predicted", "predicted_of_generator"):
            assert rank[name] == pytest.approx(expected[name], rel=TOLERANCE, abs=1e-6)
        assert rank["weights"] == pytest.approx(expected["weights"], rel=TOLERANCE, abs=1e-6)


@with_torch
def test_pytorchs_replicas_normalise_by_themselves_and_are_alike_after_an_epoch() -> None:
    first, second = train("normalised", "torch", 2)
    for name in ("weights", "history", "predicted", "predicted_of_generator"):
        assert first[name] == second[name]


@pytest.mark.parametrize(
    ("params", "backend", "reason"),
    [
        ({"batch": 9, "devices": 2}, "jax", "9 cannot be shared out evenly to 2"),
        ({"batch": 5, "devices": 2}, "tensorflow", "5 cannot be shared out evenly to 2"),
        ({"batch": 4, "devices": 2}, "torch", "torch has no strategy for this many devices"),
        ({"batch": 8, "strategy": "data-parallel"}, "torch", "strategy=data-parallel only with backend=jax"),
        ({"batch": 8, "strategy": "ddp"}, "jax", "strategy=ddp only with backend=torch"),
    ],
)
def test_an_impossible_layout_is_skipped_with_the_reason(
    params: dict[str, str | int], backend: str, reason: str
) -> None:
    with pytest.raises(Skip, match=reason):
        assert strategy_of(Point("some", "cpu", params, backend)).batch
