"""Two processes of JAX or PyTorch train as one.

JAX uses Keras's DataParallel over all devices, PyTorch DistributedDataParallel with Keras's `fit`.
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
    (found,) = train("both", backend, 1)
    return found


@cache
def together(backend: str) -> list[Found]:
    return train("both", backend, 2)


@backends
def test_two_processes_train_as_one(backend: str) -> None:
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
def test_an_exchange_changes_nothing_and_training_without_one_waits_for_no_rank(backend: str) -> None:
    ranks = together(backend)
    for rank in ranks:
        assert rank["bytes"] == 4 * (8 * 16 + 16 + 16 * 4 + 4)
        assert_learnt_alike(rank["metrics_exchanged"], alone(backend)["metrics"])
    assert ranks[1]["metrics_apart"] == ranks[1]["metrics_exchanged"]
    with pytest.raises(AssertionError):
        assert_learnt_alike(ranks[0]["metrics_apart"], ranks[1]["metrics_apart"])


@pytest.mark.exhaustive
@backends
def test_the_strategy_in_one_process_trains_as_without_it(backend: str) -> None:
    (found,) = train("learn", backend, 1, strategy=STRATEGIES[backend])
    assert_learnt_alike(found["metrics"], alone(backend)["metrics"])
    assert "bytes" not in found  # there is nothing to exchange


@pytest.mark.exhaustive
@pytest.mark.needs("torch", "g++")
def test_a_compiled_pytorch_model_trains_as_an_interpreted_one() -> None:
    (found,) = train("learn", "torch", 1, strategy="ddp", jit_compile="on")
    assert_learnt_alike(found["metrics"], alone("torch")["metrics"])


@pytest.mark.parametrize(
    "backend", [pytest.param("jax", marks=pytest.mark.exhaustive), pytest.param("torch", marks=with_torch)]
)
def test_launched_ranks_train_as_one_process(backend: str, accelbench: Run, tmp_path: Path) -> None:
    command = ("run", "learn", "--no-ceilings", "--backend", backend, "--out", "run")
    process = accelbench("launch", "--procs", "2", *command)
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    for found in metrics_of(record):
        assert_learnt_alike(found, alone(backend)["metrics"])
    assert_shared_out(metrics_of(record), alone(backend)["metrics"])


@pytest.mark.exhaustive
def test_two_devices_of_two_jax_processes_train_as_one() -> None:
    for rank in train("learn", "jax", 2, devices=2):
        assert_learnt_alike(rank["metrics"], alone("jax")["metrics"])


def test_jax_normalises_over_the_global_batch_and_predicts_all_data_on_every_rank() -> None:
    expected = alone("jax")["normalised"]
    for rank in (rank["normalised"] for rank in together("jax")):
        assert rank["history"]["loss"] == pytest.approx(expected["history"]["loss"], rel=TOLERANCE)
        for name in ("predicted", "predicted_of_generator"):
            assert rank[name] == pytest.approx(expected[name], rel=TOLERANCE, abs=1e-6)
        assert rank["weights"] == pytest.approx(expected["weights"], rel=TOLERANCE, abs=1e-6)


@with_torch
def test_pytorch_replicas_normalise_independently_and_agree_after_an_epoch() -> None:
    first, second = (rank["normalised"] for rank in together("torch"))
    for name in ("weights", "history", "predicted", "predicted_of_generator"):
        assert first[name] == second[name]


@pytest.mark.parametrize(
    ("params", "backend", "reason"),
    [
        ({"batch": 9, "devices": 2}, "jax", r"batch=9\b.*\b2 replicas"),
        ({"batch": 5, "devices": 2}, "tensorflow", r"batch=5\b.*\b2 replicas"),
        ({"batch": 4, "devices": 2}, "torch", r"^torch .*ddp only with .*devices=1"),
        ({"batch": 8, "strategy": "data-parallel"}, "torch", "strategy=data-parallel only with backend=jax"),
        ({"batch": 8, "strategy": "ddp"}, "jax", "strategy=ddp only with backend=torch"),
    ],
)
def test_an_impossible_layout_is_skipped_with_the_reason(
    params: dict[str, str | int], backend: str, reason: str
) -> None:
    with pytest.raises(Skip, match=reason):
        assert strategy_of(Point("some", "cpu", params, backend)).batch
