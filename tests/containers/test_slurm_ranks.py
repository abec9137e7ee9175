"""A run with ranks on both nodes of a Slurm cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import OWN_BENCHMARKS, info
from tests.containers.conftest import records
from tests.containers.slurm_cluster import Cluster, wait_until

pytestmark = [pytest.mark.container, pytest.mark.timeout(1500)]

SRUN = ("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mpi=none")
COORDINATOR = {"ACCELBENCH_COORDINATOR": "127.0.0.1"}
"""The test cluster's node names are not resolvable host names."""


def test_ranks_on_two_nodes_measure_together(cluster: Cluster, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "accelbench", "run", "together", "--param", "how=well,crash,well")
    options = ("--max-seconds", "0.2", "--rounds", "1", "--patience", "0", "--out", tmp_path / "run")
    own = {"ACCELBENCH_PATH": str(OWN_BENCHMARKS)}
    process = cluster.command(*SRUN, *command, *options, **COORDINATOR, **own)
    assert "2 ranks" in process.stdout, process.stdout + process.stderr
    assert process.returncode == 1
    well, crash = records(tmp_path / "run")
    assert (well["status"], len(well["ranks"])) == ("measured", 2)
    assert crash["status"] == "failed"
    assert "rank 1" in crash["reason"]
    assert "SIGSEGV" in crash["reason"]


@pytest.mark.exhaustive
def test_a_preempted_job_with_ranks_is_resumed(cluster: Cluster, tmp_path: Path) -> None:
    """The second point hangs: the first job is preempted in it, and the second job reaches its time limit."""
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n"
        "if [ -e run/run.json ]; then set -- resume run; "
        "else set -- run together --param how=well,hang --rounds 1 --max-seconds 0.2 --patience 0 --time-limit 20 "
        "--out run; fi\n"
        f'exec {" ".join(SRUN)} {sys.executable} -m accelbench "$@"\n'
    )
    own = {"ACCELBENCH_PATH": str(OWN_BENCHMARKS)}
    options = ("--nodes=2", "--requeue", f"--chdir={tmp_path}", "--output=job.out", "--open-mode=append")
    submitted = cluster.command("sbatch", "--parsable", *options, script, **COORDINATOR, **own)
    job, run = submitted.stdout.strip(), tmp_path / "run"
    wait_until(lambda: len(records(run)) > 0, "the first record")
    urgent = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    cluster.wait(cluster.output("sbatch", "--parsable", *urgent), "COMPLETED")
    output = (tmp_path / "job.out").read_text
    assert info(run)["status"] == "interrupted", output()
    assert [record["status"] for record in records(run)] == ["measured"], output()
    done = cluster.wait(job, "FAILED", "COMPLETED")
    assert (done["Restarts"], info(run)["status"]) == ("1", "finished"), output()
    assert [record["status"] for record in records(run)] == ["measured", "failed"], output()


def test_a_training_workload_is_distributed_in_the_image(cluster: Cluster, sif: Path, tmp_path: Path) -> None:
    command = ("apptainer", "exec", "--bind", tmp_path, sif, "accelbench", "run", "cnn-mnist", "--no-ceilings")
    options = ("--param", "epochs=2", "--trusted-network", "--out", tmp_path / "run")
    process = cluster.command(*SRUN, *command, *options, **COORDINATOR)
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    assert record["point"]["params"]["processes"] == 2
    assert record["verification"]["passed"]
    assert record["parts"]["bytes"] == 4 * 1_199_882  # float32 gradients of all parameters
