"""Several processes of JAX learn what one does, by Keras's DataParallel over all their devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling.benchmark import Skip
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

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone() -> Found:
    (found,) = train("learn", "jax", 1)
    return found


@pytest.fixture(scope="module")
def together() -> list[Found]:
    return train("learn", "jax", 2)


def test_two_processes_learn_what_one_does(alone: Found, together: list[Found]) -> None:
    for rank in together:
        assert rank["history"]["loss"] == pytest.approx(alone["history"]["loss"], rel=TOLERANCE)
        assert rank["history"]["accuracy"] == pytest.approx(alone["history"]["accuracy"])
        assert_learnt_alike(rank["metrics"], alone["metrics"])
    assert_shared_out([rank["metrics"] for rank in together], alone["metrics"])


def test_every_rank_says_which_step_it_is_at(together: list[Found]) -> None:
    assert [(rank["steps"], rank["stage"]) for rank in together] == [(24, "step")] * 2


def test_the_exchange_alone_changes_nothing_and_training_apart_waits_for_nobody(
    alone: Found, together: list[Found]
) -> None:
    for rank in together:
        assert rank["bytes"] == 4 * (8 * 16 + 16 + 16 * 4 + 4)
        assert_learnt_alike(rank["metrics_exchanged"], alone["metrics"])
    assert together[1]["metrics_apart"] == together[1]["metrics_exchanged"]
    with pytest.raises(AssertionError):
        assert_learnt_alike(together[0]["metrics_apart"], together[1]["metrics_apart"])


def test_two_devices_of_two_processes_learn_what_one_does(alone: Found) -> None:
    for rank in train("learn", "jax", 2, devices=2):
        assert_learnt_alike(rank["metrics"], alone["metrics"])


def test_in_one_process_the_strategy_learns_what_none_does(alone: Found) -> None:
    (found,) = train("learn", "jax", 1, strategy="data-parallel")
    assert_learnt_alike(found["metrics"], alone["metrics"])
    assert "bytes" not in found  # there is nothing to exchange


def test_normalisation_is_over_the_whole_batch_and_every_rank_predicts_everything() -> None:
    (alone,) = train("normalised", "jax", 1)
    for rank in train("normalised", "jax", 2):
        assert rank["history"]["loss"] == pytest.approx(alone["history"]["loss"], rel=TOLERANCE)
        for name in ("predicted", "predicted_of_generator"):
            assert rank[name] == pytest.approx(alone[name], rel=TOLERANCE, abs=1e-6)
        assert rank["weights"] == pytest.approx(alone["weights"], rel=TOLERANCE, abs=1e-6)


@pytest.mark.exhaustive
def test_launched_ranks_are_compared_with_one_process(accelbench: Run, tmp_path: Path, alone: Found) -> None:
    """Replicas that by intention do not tell each other what they learnt are caught by the very comparison."""
    command = ("run", "learn", "--no-ceilings", "--backend", "jax", "--param", "sync=on,off", "--out", "run")
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
        ({"batch": 9, "devices": 2}, "jax", "a batch of 9 cannot be shared out evenly to 2 replicas"),
        ({"batch": 5, "devices": 2}, "tensorflow", "a batch of 5 cannot be shared out evenly to 2 replicas"),
        ({"batch": 4, "devices": 2}, "torch", "torch has no strategy for this many devices"),
        ({"batch": 8, "strategy": "data-parallel"}, "torch", "strategy=data-parallel only with backend=jax"),
    ],
)
def test_what_cannot_be_is_skipped_with_the_reason(params: dict[str, str | int], backend: str, reason: str) -> None:
    with pytest.raises(Skip, match=reason):
        assert strategy_of(Point("some", "cpu", params, backend)).batch
