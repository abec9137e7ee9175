"""Several replicas train as one, with each TensorFlow strategy that runs on CPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.placement import on_cpus
from accelbench.profiling.ranks.world import World, join
from accelbench.profiling.records.point import Point, Scalar
from accelbench.workloads.distribution.find import strategy_of
from accelbench.workloads.training.keras_model import use_backend
from tests.conftest import Run, records
from tests.requirements import BACKENDS
from tests.workloads.distribution import engines
from tests.workloads.distribution.engines import (
    SECONDS,
    TOLERANCE,
    Found,
    assert_learnt_alike,
    assert_shared_out,
    metrics_of,
)

train = partial(engines.train, script="tensorflow_rank")
EPOCHS, STEPS, EXAMPLES = 4, 6, 48

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def alone() -> Found:
    """Return the results of one process with Keras's `fit`."""
    (found,) = train("learn and variants", "tensorflow", 1)
    return found


@pytest.fixture(scope="module")
def together() -> list[Found]:
    return train("learn and variants", "tensorflow", 2)


def assert_same(found: Found, alone: Found) -> None:
    assert found["history"]["loss"] == pytest.approx(alone["history"]["loss"], rel=TOLERANCE)
    assert found["history"]["accuracy"] == pytest.approx(alone["history"]["accuracy"])
    assert_learnt_alike(found["metrics"], alone["metrics"])


@pytest.mark.slow
def test_two_devices_of_one_process_train_as_one(alone: Found) -> None:
    (mirrored,) = train("learn", "tensorflow", 1, devices=2)
    assert_same(mirrored, alone)


def test_two_processes_train_as_one(alone: Found, together: list[Found]) -> None:
    for rank in together:
        assert_same(rank, alone)
    assert_shared_out([rank["metrics"] for rank in together], alone["metrics"])


@pytest.mark.exhaustive
@pytest.mark.slow
def test_multiworker_with_one_process_trains_as_without_it(alone: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}}))
    (found,) = train("learn", "tensorflow", 1, strategy="multiworker")
    assert_same(found, alone)
    assert "bytes" not in found


def test_callbacks_receive_the_same_calls_as_from_fit(alone: Found, together: list[Found]) -> None:
    def kinds(told: list[Any]) -> list[Any]:
        return [
            sorted(what) if isinstance(what, dict) else what if isinstance(what, str) else "a loss" for what in told
        ]

    for rank in together:
        assert kinds(rank["told"]) == kinds(alone["told"])
        assert all(isinstance(loss, float) for loss in rank["told"] if not isinstance(loss, str | dict))
        epochs = [what for what in rank["told"] if isinstance(what, dict)][:EPOCHS]
        assert [logs["loss"] for logs in epochs] == rank["history"]["loss"]
    # The loss of a step is computed on the rank's share of the batch.
    assert together[0]["told"][3] != together[1]["told"][3]


def test_every_rank_publishes_its_step(together: list[Found]) -> None:
    assert [(rank["steps"], rank["stage"]) for rank in together] == [(EPOCHS * STEPS, "step")] * 2


def test_training_without_exchange_waits_for_no_rank_and_differs(alone: Found, together: list[Found]) -> None:
    for rank in together:
        assert rank["bytes"] == 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert together[1]["metrics_apart"] == together[1]["metrics"]
    with pytest.raises(AssertionError):
        assert_learnt_alike(together[0]["metrics_apart"], alone["metrics"])


@pytest.mark.parametrize("variant", ["compiled", "half", "normalised", "dropping"])
def test_replicas_stay_equal_in_every_variant(together: list[Found], variant: str) -> None:
    one, other = (rank["variants"][variant] for rank in together)
    assert one["weights"] == other["weights"]
    assert one["loss"] == other["loss"]


def test_xla_compiled_replicas_train_as_one_process(alone: Found, together: list[Found]) -> None:
    found, expected = together[0]["variants"]["compiled"], alone["variants"]["compiled"]
    assert found["loss"] == pytest.approx(expected["loss"], rel=TOLERANCE)
    for part, expected_part in zip(found["weights"], expected["weights"], strict=True):
        assert [w for row in part for w in (row if isinstance(row, list) else [row])] == pytest.approx(
            [w for row in expected_part for w in (row if isinstance(row, list) else [row])], rel=TOLERANCE
        )


def test_half_precision_scales_the_loss(together: list[Found]) -> None:
    assert together[0]["variants"]["half"]["optimizer"] == "LossScaleOptimizer"


def test_dropout_differs_between_replicas(together: list[Found]) -> None:
    one, other = (rank["variants"]["dropping"]["random"] for rank in together)
    assert one
    assert one != other


def test_a_callback_stops_training_after_its_epoch(alone: Found, together: list[Found]) -> None:
    assert [found["variants"]["stopped"]["epochs"] for found in (alone, *together)] == [2] * 3


@pytest.mark.slow
def test_a_rank_does_not_wait_for_a_peer_that_exited() -> None:
    ranks = engines.start("lost", "tensorflow", 2, script="tensorflow_rank", epochs=100)
    try:
        said, complaint = ranks[0].communicate(timeout=SECONDS)
    finally:
        for rank in ranks:
            rank.kill()
    assert "UnavailableError" in said + complaint


# `test_serving_ranks_have_a_record_without_metrics` also trains a worker with a parameter server.
@pytest.mark.slow
@pytest.mark.exhaustive
def test_one_worker_with_a_parameter_server_trains_as_one_process(alone: Found) -> None:
    coordinator, *others = train("learn", "tensorflow", 3, strategy="parameter-server")
    assert_same(coordinator, alone)
    assert coordinator["metrics"]["first_batch"] == alone["metrics"]["first_batch"]
    assert coordinator["steps"] == EPOCHS * STEPS
    assert others == [{"served": True}] * 2


@pytest.mark.slow
def test_workers_of_a_parameter_server_train_asynchronously() -> None:
    coordinator, *others = train("learn", "tensorflow", 4, strategy="parameter-server")
    losses, accuracies = (coordinator["history"][name] for name in ("loss", "accuracy"))
    assert len(losses) == EPOCHS
    assert losses[-1] < losses[0]
    # An epoch's metrics cover all of its own examples, and no late update of the epoch before.
    assert all(accuracy * EXAMPLES == pytest.approx(round(accuracy * EXAMPLES), abs=1e-3) for accuracy in accuracies)
    assert coordinator["steps"] == EPOCHS * STEPS
    assert others == [{"served": True}] * 3


@pytest.mark.slow
def test_two_ranks_give_one_record(alone: Found, accelbench: Run, tmp_path: Path) -> None:
    options = ("--no-ceilings", "--trusted-network", "--device", "cpu", "--out", "run")
    process = accelbench("launch", "--procs", "2", "run", "learn", *options)
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    assert_shared_out(metrics_of(record), alone["metrics"])
    for rank in metrics_of(record):
        assert_learnt_alike(rank, alone["metrics"])


@pytest.mark.slow
def test_serving_ranks_have_a_record_without_metrics(alone: Found, accelbench: Run, tmp_path: Path) -> None:
    options = (
        "--strategy",
        "parameter-server",
        "--trusted-network",
        "--no-ceilings",
        "--device",
        "cpu",
        "--out",
        "run",
    )
    process = accelbench("launch", "--procs", "3", "run", "learn", *options)
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    coordinator, *others = metrics_of(record)
    assert record["status"] == "measured"
    assert_learnt_alike(coordinator, alone["metrics"])
    assert others == [{}, {}]


@pytest.fixture
def world_of() -> Iterator[Any]:
    """Return a function that makes this process rank 0 of a given number."""
    yield lambda size: join(World(size=size, addresses=["127.0.0.1:1"] * size))
    join(World())


@pytest.mark.parametrize(
    ("size", "params", "reason"),
    [
        (2, {"strategy": "mirrored"}, "strategy=mirrored only with backend=tensorflow processes=1"),
        (1, {"strategy": "mirrored", "devices": 2, "jit_compile": "on"}, "jit_compile=on"),
        (1, {"strategy": "multiworker", "devices": 2}, "strategy=multiworker only with backend=tensorflow devices=1"),
        (1, {"strategy": "parameter-server"}, r"at least 3\b.*\bhas 1$"),
        (2, {"strategy": "parameter-server"}, r"at least 3\b.*\bhas 2$"),
        (3, {"strategy": "parameter-server", "devices": 2}, "only with backend=tensorflow devices=1"),
        (3, {"strategy": "parameter-server", "jit_compile": "on"}, "only with .* jit_compile=auto,off"),
        (1, {"strategy": "tpu"}, "strategy=tpu only with backend=tensorflow device=tpu"),
        (2, {"devices": 2}, "^tensorflow .*multiworker only with"),
    ],
)
def test_unsupported_values_of_a_strategy_are_skipped_with_the_reason(
    world_of: Any, size: int, params: dict[str, Scalar], reason: str
) -> None:
    world_of(size)
    with pytest.raises(Skip, match=reason):
        strategy_of(Point("learn", "cpu", {"batch": 8} | params, "tensorflow"))


@pytest.mark.parametrize("backend", BACKENDS[:2])
def test_a_cpu_is_not_split_into_more_devices_than_cores(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    split = Point("learn", "cpu", {"batch": 8, "devices": 2}, backend)
    with on_cpus(sorted(os.sched_getaffinity(0))[:1]), pytest.raises(Skip, match=r"\bdevices=2\b.*\b1 CPUs"):
        use_backend(split)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("--strategy", "tpu"), "strategy=tpu only with backend=tensorflow device=tpu"),
        (("--device", "tpu"), "TPU_ACCELERATOR_TYPE and TPU_NAME"),
    ],
)
def test_the_tpu_strategy_without_a_tpu_ends_with_the_reason(
    accelbench: Run, asked: tuple[str, ...], reason: str
) -> None:
    process = accelbench("run", "bilstm-har", *asked, TPU_NAME=None, TPU_ACCELERATOR_TYPE=None)
    assert process.returncode == 2
    assert reason in process.stderr


def test_auto_selects_the_tpu_strategy_on_a_tpu() -> None:
    strategy = strategy_of(Point("learn", "tpu", {"batch": 8}, "tensorflow"))
    assert strategy.name == "tpu"
