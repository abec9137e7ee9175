"""One run measured by ranks on both nodes of a real Slurm, found by Slurm's own variables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OWN_BENCHMARKS
from tests.containers.conftest import records
from tests.containers.slurm_cluster import Cluster, running_cluster

pytestmark = [pytest.mark.container, pytest.mark.timeout(1500)]

SRUN = ("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mpi=none")
COORDINATOR = {"ACCELBENCH_COORDINATOR": "127.0.0.1"}
"""The nodes' names are Slurm's alone, and nothing resolves them; a real cluster needs no such hint."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        yield running


def test_ranks_on_two_nodes_measure_together(cluster: Cluster, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "accelbench", "run", "together", "--param", "how=well,crash,well")
    options = ("--max-seconds", "0.2", "--out", tmp_path / "run")
    own = {"ACCELBENCH_PATH": str(OWN_BENCHMARKS)}
    process = cluster.command(*SRUN, *command, *options, **COORDINATOR, **own)
    assert "2 ranks of srun" in process.stdout, process.stdout + process.stderr
    assert process.returncode == 1
    well, crash = records(tmp_path / "run")
    assert (well["status"], len(well["ranks"])) == ("measured", 2)
    assert crash["reason"] == "rank 1 on node 0: the worker was killed by SIGSEGV"


def test_a_training_is_distributed_inside_the_image(cluster: Cluster, sif: Path, tmp_path: Path) -> None:
    command = ("apptainer", "exec", "--bind", tmp_path, sif, "accelbench", "run", "cnn-mnist", "--no-ceilings")
    options = ("--param", "epochs=2", "--out", tmp_path / "run")
    process = cluster.command(*SRUN, *command, *options, **COORDINATOR)
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    assert record["params"]["processes"] == 2
    assert record["verification"]["passed"]
    assert record["parts"]["bytes"] == 4 * 1_199_882  # every parameter's gradient, in float32
