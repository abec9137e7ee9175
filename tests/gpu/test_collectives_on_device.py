"""NCCL on GPUs: collectives of one rank, and all operations of two ranks if there are two GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accelbench.kernels.collectives import OPERATIONS, gpu_nccl
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from tests.conftest import Run, records
from tests.kernels.in_ranks import worlds
from tests.kernels.test_collectives_nccl import FLOAT32, SUM, UINT8, Group
from tests.requirements import not_tested

pytestmark = pytest.mark.gpu


@pytest.mark.needs("gpu-unit")
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("size", [8, 1000, 3 << 20])
def test_a_single_rank_receives_its_own_input(op: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (here,) = worlds(1)
    monkeypatch.setattr(gpu_nccl, "world", lambda: here)
    point = Point("collectives", "gpu", {"op": op, "impl": "nccl", "bytes": size, "processes": 1}, seed=7)
    try:
        task = gpu_nccl.prepare(point)
    except Skip as skip:
        not_tested("gpu-unit", str(skip))
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.sample
    assert task.sample(3) > 0


@pytest.mark.needs("nccl")
def test_the_simulated_nccl_has_the_signatures_of_cupy() -> None:
    from cupy.cuda import nccl

    assert (nccl.NCCL_FLOAT32, nccl.NCCL_UINT8, nccl.NCCL_SUM) == (FLOAT32, UINT8, SUM)
    for name in ("allReduce", "allGather", "reduceScatter", "broadcast", "send", "recv"):
        simulated: Callable[..., None] = getattr(Group, name)
        said = getattr(nccl.NcclCommunicator, name).__doc__.splitlines()[0]
        assert said.count(",") == simulated.__code__.co_argcount - 1, said


@pytest.mark.needs("two-gpus")
def test_two_gpus_measure_every_operation(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *("launch", "--procs", "2", "run", "collectives", "pingpong", "--device", "gpu", "--no-ceilings"),
        *("--out", "run", "--max-seconds", "1", "--param", "bytes=8,1048576"),
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert [record["status"] for record in records(tmp_path / "run")] == ["measured"] * 2 * (len(OPERATIONS) + 1)
