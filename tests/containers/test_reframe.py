"""The ReFrame check, run locally and on a Slurm cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.containers.conftest import environment_of
from tests.containers.slurm_cluster import Cluster

pytestmark = pytest.mark.container

CHECK = ROOT / "containers" / "reframe" / "accelbench_check.py"
POINTS = ("behave cpu us=1000", "behave cpu us=3000")

# Site configuration. The cluster has no accounting, so ReFrame polls jobs with squeue instead of sacct.
SITE = """
site_configuration = {
    "systems": [{
        "name": "cluster",
        "hostnames": [".*"],
        "partitions": [
            {"name": "main", "scheduler": "squeue", "launcher": "srun", "environs": ["plain"]},
        ],
    }],
    "environments": [{"name": "plain"}],
}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        'description = "small"\nmax_seconds = 0.5\nrounds = 1\n'
        '[[benchmark]]\nname = "behave"\naxes = { us = [1000, 3000] }\n'
    )
    return path


def reframe(folder: Path, *options: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run the check with changed environment variables, and with prefix and home in the folder."""
    return subprocess.run(
        [
            *(Path(sys.executable).with_name("reframe"), f"--prefix={folder}/reframe", "-c", CHECK, "-r"),
            *("-S", f"executable={sys.executable} -m accelbench", "--performance-report", "--nocolor", *options),
        ],
        cwd=folder,
        env=environment(HOME=str(folder), TMPDIR=str(folder), **changes),
        capture_output=True,
        text=True,
        timeout=200,
    )


def kept_run(folder: Path) -> Path:
    (stored,) = (folder / "reframe" / "output").glob("**/run/run.json")
    return stored.parent


def write_stored_run(folder: Path, factor: float, *values: int) -> Path:
    """Write a run with three repetitions; the median time of a point is `us` microseconds × `factor`."""
    folder.mkdir()
    lines = [
        {
            "point": {"benchmark": "behave", "device": "cpu", "backend": None, "params": {"us": us}},
            "round": number,
            "figure": "items",
            "status": "measured",
            "work": {"items": us, "item": "spins"},
            "timing": {"summary": {"median": us * 1e-6 * factor * spread}},
        }
        for number, spread in enumerate((1, 0.5, 2), start=1)
        for us in values
    ]
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


@pytest.mark.parametrize(
    ("factor", "values", "message"),
    [
        (20, (1000, 3000), ""),
        (0.05, (1000, 3000), "performance error"),
        (20, (1000, 3000, 7000), "behave cpu us=7000"),
    ],
    ids=["faster", "slower", "a point is missing"],
)
def test_a_suite_is_compared_with_a_stored_run(
    tmp_path: Path, suite: Path, factor: float, values: tuple[int, ...], message: str
) -> None:
    stored = write_stored_run(tmp_path / "stored", factor, *values)
    process = reframe(tmp_path, "-S", "suite=small.toml", "-S", "tolerance=0.5", "-S", "stored_run=stored")
    assert stored.is_dir()
    assert process.returncode == (1 if message else 0), process.stdout
    assert message in " ".join(process.stdout.split())
    if not message:
        assert all(f"P: {point}: " in process.stdout for point in POINTS)
        assert f"(r:{1e6 / factor:g}, l:-0.5, u:None)" in process.stdout.replace(".0,", ",")
        assert (kept_run(tmp_path) / "report.html").is_file()


def test_a_wrong_result_fails_the_sanity_check(tmp_path: Path, suite: Path) -> None:
    suite.write_text('description = "bad"\n[[benchmark]]\nname = "misbehave"\naxes = { how = ["wrong"] }\n')
    process = reframe(tmp_path, "-S", f"suite={suite}")
    assert process.returncode == 1
    assert "sanity error" in process.stdout
    assert "misbehave cpu how=wrong" in process.stdout


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("suite=no-such", "no-such"),
        ("device=tpu", "TPU"),
        ("stored_run=nowhere", "nowhere/records.jsonl"),
    ],
)
def test_an_error_of_accelbench_is_reported(tmp_path: Path, option: str, message: str) -> None:
    process = reframe(tmp_path, "-S", option)
    assert process.returncode != 0
    assert message in process.stdout + process.stderr


def test_the_check_runs_through_slurm(cluster: Cluster, tmp_path: Path, suite: Path) -> None:
    (tmp_path / "site.py").write_text(SITE)
    site = ("-C", str(tmp_path / "site.py"), "-J", "nodelist=n2")
    process = reframe(tmp_path, *site, "-S", f"suite={suite}", **cluster.environment)
    jobs = cluster.output("scontrol", "show", "jobs", "--oneliner")
    assert process.returncode == 0, process.stdout
    assert "rfm_AccelbenchCheck" in jobs
    assert environment_of(kept_run(tmp_path))["system"]["scheduler"] == "slurm"
