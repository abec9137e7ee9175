"""Horovod: the reason of the skip without it, and equal results with one and two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run, records
from tests.workloads.distribution.engines import (
    TOLERANCE,
    Found,
    assert_learnt_alike,
    assert_shared_out,
    train,
)

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
@pytest.mark.needs("no-horovod")
def test_without_horovod_the_record_contains_install_instructions(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("run", "learn", "--strategy", "horovod", "--no-ceilings", "--device", "cpu", "--out", "run")
    assert process.returncode == 1, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    assert record["status"] == "skipped"
    assert "HOROVOD_WITH_TENSORFLOW=1" in record["reason"]
    assert "xla_mpi_ops.cc" in record["reason"]


@pytest.fixture(scope="module")
def alone() -> Found:
    (found,) = train("learn", "tensorflow", 1, script="tensorflow_rank")
    return found


@pytest.mark.needs("horovod")
def test_two_horovod_processes_train_as_one(alone: Found) -> None:
    together = train("learn and variants", "tensorflow", 2, script="tensorflow_rank", strategy="horovod")
    for rank in together:
        assert rank["history"]["loss"] == pytest.approx(alone["history"]["loss"], rel=TOLERANCE)
        assert_learnt_alike(rank["metrics"], alone["metrics"])
    assert_shared_out([rank["metrics"] for rank in together], alone["metrics"])
    assert together[1]["metrics_apart"] == together[1]["metrics"]
    with pytest.raises(AssertionError):
        assert_learnt_alike(together[0]["metrics_apart"], alone["metrics"])
    for one, other in zip(*(rank["variants"].values() for rank in together), strict=True):
        assert one["weights"] == other["weights"]


@pytest.mark.needs("horovod")
def test_horovod_with_one_process_trains_as_without_it(alone: Found) -> None:
    (found,) = train("learn", "tensorflow", 1, script="tensorflow_rank", strategy="horovod")
    assert_learnt_alike(found["metrics"], alone["metrics"])
