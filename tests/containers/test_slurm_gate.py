"""`containers/slurm/gate.sh` as Prolog, Epilog and HealthCheckProgram on a Slurm cluster with two nodes."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from accelbench.gate.answer import GateAnswer
from accelbench.gate.baseline import Baseline, BaselineHardware, BaselineMetric, write_baseline
from tests.conftest import OWN_BENCHMARKS, ROOT, environment
from tests.containers.slurm_cluster import NODES, Cluster, running_cluster, wait_until

pytestmark = [pytest.mark.container, pytest.mark.timeout(600)]

# Script of a site, which slurm.conf names. With --include-noisy, because other tests may keep the machine busy, and
# with a TMPDIR for each node, because only one gate runs at a time on a machine and both nodes are this one.
SITE = """#!/bin/sh
export SLURM_CONF={conf}
export ACCELBENCH='{python} -m accelbench' PYTHONPATH={root} ACCELBENCH_PATH={own}
export ACCELBENCH_OPTIONS='--suite {folder}/suite.toml --only cpu --include-noisy --tag rack=r12'
export ACCELBENCH_BASELINE={folder}/$SLURMD_NODENAME.toml ACCELBENCH_RESULTS={folder}/results
export TMPDIR={folder}/$SLURMD_NODENAME
exec {root}/containers/slurm/gate.sh
"""
SUITE = 'description = "x"\nmax_seconds = 0.1\nrounds = 1\n[[benchmark]]\nname = "behave"\n'


@dataclass(frozen=True)
class Site:
    """Folder of a site with its script for Slurm, baselines of the nodes, and results."""

    folder: Path

    @property
    def script(self) -> Path:
        return self.folder / "site.sh"

    def answers(self, node: str) -> list[GateAnswer]:
        """Return the stored answers about a node, the oldest first."""
        found = sorted((self.folder / "results").glob(f"{node}-*.json"))
        return [GateAnswer.model_validate_json(path.read_text()) for path in found]

    def limit(self, node: str, measured: GateAnswer, factor: float) -> None:
        """Write the node's baseline: its median is the measured value times the factor, its limit half of this."""
        (check,) = [check for check in measured.checks if check.kind == "measurement"]
        assert check.value is not None
        assert measured.hardware is not None
        facts = {"point": check.name, "figure": check.figure, "unit": check.unit, "runs": 1}
        metric = BaselineMetric.model_validate({**facts, "median": check.value * factor, "min": "0.5 * median"})
        hardware = BaselineHardware(**measured.hardware.model_dump(), metric=[metric])
        baseline = Baseline(baseline_version=1, created="2025-01-01", accelbench="0", hardware=[hardware])
        path = self.folder / f"{node}.toml"
        path.unlink(missing_ok=True)
        write_baseline(baseline, path)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Cluster of these tests only, because they change its configuration."""
    with running_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    for name in ("results", *NODES):
        (folder / name).mkdir()
    (folder / "suite.toml").write_text(SUITE)
    found = Site(folder)
    places = {"root": ROOT, "own": OWN_BENCHMARKS, "folder": folder, "conf": cluster.environment["SLURM_CONF"]}
    found.script.write_text(SITE.format(python=sys.executable, **places))
    found.script.chmod(0o755)
    return found


@pytest.fixture(scope="module")
def measured(cluster: Cluster, site: Site) -> GateAnswer:
    """Answer about n2 by the Prolog of a job, without any limit."""
    with cluster.configured(f"Prolog={site.script}"):
        job = submit(cluster, site, "--nodelist=n2")
        done = cluster.wait(job, "COMPLETED", "FAILED")
        assert (done["JobState"], done["Restarts"]) == ("COMPLETED", "0")
    (answer,) = site.answers("n2")
    return answer


def submit(cluster: Cluster, site: Site, *options: str) -> str:
    output = f"--output={site.folder}/%j.out"
    return cluster.output("sbatch", "--parsable", "--requeue", output, *options, "--wrap=echo $SLURMD_NODENAME")


def test_a_node_without_limits_is_unknown_and_runs_the_job(cluster: Cluster, measured: GateAnswer) -> None:
    assert (measured.node, measured.verdict, measured.attributes["rack"]) == ("n2", "unknown", "r12")
    assert "State=IDLE" in cluster.node("n2")


def test_the_prolog_drains_an_unfit_node_and_the_job_runs_on_a_fit_one(
    cluster: Cluster, site: Site, measured: GateAnswer
) -> None:
    site.limit("n1", measured, 100)  # no node reaches it
    site.limit("n2", measured, 0.01)
    with cluster.configured(f"Prolog={site.script}"):
        job = submit(cluster, site, "--exclusive")
        done = cluster.wait(job, "COMPLETED", "FAILED")
        assert (done["JobState"], done["Restarts"], done["NodeList"]) == ("COMPLETED", "1", "n2")
        assert "DRAIN" in cluster.node("n1")
        (unfit,), fit = site.answers("n1"), site.answers("n2")[-1]
        assert (unfit.verdict, fit.verdict) == ("unfit", "fit")
        assert f"Reason=accelbench: {unfit.summary}" in cluster.node("n1")
    fleet = [sys.executable, "-m", "accelbench", "fleet", site.folder / "results", "--include-noisy", "--format", "csv"]
    table = subprocess.run(fleet, env=environment(), capture_output=True, text=True, check=True).stdout
    assert {row["node"] for row in csv.DictReader(table.splitlines())} == {*NODES}


@pytest.mark.exhaustive
def test_the_epilog_drains_the_node_after_the_job(cluster: Cluster, site: Site, measured: GateAnswer) -> None:
    site.limit("n2", measured, 100)
    with cluster.configured(f"Epilog={site.script}"):
        done = cluster.wait(submit(cluster, site, "--nodelist=n2"), "COMPLETED", "FAILED")
        assert (done["JobState"], done["Restarts"]) == ("COMPLETED", "0")
        wait_until(lambda: "DRAIN" in cluster.node("n2"), "n2 to be drained")
        assert f"Reason=accelbench: {site.answers('n2')[-1].summary}" in cluster.node("n2")


@pytest.mark.exhaustive
def test_the_health_check_drains_the_unfit_one_of_two_idle_nodes(
    cluster: Cluster, site: Site, measured: GateAnswer
) -> None:
    site.limit("n1", measured, 100)
    site.limit("n2", measured, 0.01)
    before = len(site.answers("n2"))
    program = f"HealthCheckProgram={site.script}"
    with cluster.configured(program, "HealthCheckInterval=3", "HealthCheckNodeState=IDLE"):
        wait_until(lambda: "DRAIN" in cluster.node("n1"), "n1 to be drained")
        # Slurm starts the next check although the previous one still runs; its answer is then unknown.
        unfit = [answer.summary for answer in site.answers("n1") if answer.verdict == "unfit"]
        assert any(f"Reason=accelbench: {summary}" in cluster.node("n1") for summary in unfit)
        wait_until(lambda: len(site.answers("n2")) > before, "an answer about n2")
        assert {answer.verdict for answer in site.answers("n2")[before:]} <= {"fit", "unknown"}
        assert "State=IDLE" in cluster.node("n2")
