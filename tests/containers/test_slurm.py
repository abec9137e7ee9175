"""The job script on a Slurm cluster with two nodes, with and without the image."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OWN_BENCHMARKS, ROOT, info
from tests.containers.conftest import records
from tests.containers.slurm_cluster import Cluster, wait_until

pytestmark = [pytest.mark.container, pytest.mark.timeout(1500)]

SCRIPT = ROOT / "containers" / "slurm" / "accelbench.sbatch"
BARE = {"ACCELBENCH_PYTHON": sys.executable, "ACCELBENCH_PATH": str(OWN_BENCHMARKS), "ACCELBENCH_DEVICE": "cpu"}


@pytest.fixture
def in_the_image(sif: Path) -> dict[str, str | None]:
    """Environment variables of a job in the image."""
    return {"ACCELBENCH_SIF": str(sif), "ACCELBENCH_DEVICE": "cpu"}


def write_suite(folder: Path, name: str, benchmark: str, seconds: float = 0.2, **axes: list[Any]) -> str:
    (folder / "accelbench.toml").write_text("[run]\nno-ceilings = true\npatience = 0\n")
    values = ", ".join(f"{axis} = {json.dumps(values)}" for axis, values in axes.items())
    suite = folder / f"{name}.toml"
    suite.write_text(
        f'description = "{name}"\nmax_seconds = {seconds}\nrounds = 1\n'
        f'[[benchmark]]\nname = "{benchmark}"\naxes = {{ {values} }}\n'
    )
    return suite.name


def submit(cluster: Cluster, folder: Path, *arguments: str | Path, **changes: str | None) -> str:
    """Submit a job with output in `<folder>/<job>.out`, and return its number."""
    local_disk = folder / "local"
    local_disk.mkdir(exist_ok=True)
    options = (f"--chdir={folder}", f"--output={folder}/%A.out", "--parsable")
    process = cluster.command("sbatch", *options, *arguments, **{"SLURM_TMPDIR": str(local_disk), **changes})
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def assert_complete(run: Path, output: str) -> None:
    assert info(run)["status"] == "finished", output
    assert [record["status"] for record in records(run)] == ["measured"] * len(info(run)["plan"]), output
    assert all(record["verification"]["passed"] for record in records(run))
    assert (run / "report.html").is_file()


def test_a_job_array_measures_each_suite_in_the_image_and_gather_collects_the_runs(
    cluster: Cluster, in_the_image: dict[str, str | None], tmp_path: Path
) -> None:
    suites = [
        write_suite(tmp_path, "products", "matmul", impl=["vendor"], dtype=["float64"], n=[64, 96]),
        write_suite(tmp_path, "sums", "reduce", impl=["vendor"], dtype=["float64"]),
    ]
    job = submit(cluster, tmp_path, "--array=0-1", SCRIPT, *suites, **in_the_image)
    for task in ("0", "1"):
        done = cluster.wait(f"{job}_{task}", "COMPLETED", "FAILED", seconds=200)
        assert done["JobState"] == "COMPLETED", (tmp_path / f"{job}.out").read_text()
    out = tmp_path / "runs" / f"slurm-{job}"
    runs = sorted(run.parent for run in out.glob("*/run.json"))
    assert {run.name.split("-")[0] for run in runs} == {"products", "sums"}
    assert {run.name.split("-")[1] for run in runs} == {"n1", "n2"}
    for run in runs:
        assert_complete(run, (tmp_path / f"{job}.out").read_text())
    assert not list((tmp_path / "local").iterdir())

    gathered = subprocess.run(
        [sys.executable, "-m", "accelbench", "gather", out], cwd=ROOT, capture_output=True, text=True
    )
    assert gathered.returncode == 0, gathered.stderr
    with (out / "records.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert sorted({line["run"] for line in lines}) == [run.name for run in runs]
    assert len(lines) == sum(len(records(run)) for run in runs)
    assert {"64", "96"} <= {line["param.n"] for line in lines}


def test_a_preempted_job_is_resumed(cluster: Cluster, in_the_image: dict[str, str | None], tmp_path: Path) -> None:
    suite = write_suite(
        tmp_path, "products", "matmul", 1, impl=["vendor"], dtype=["float64"], n=[64, 96, 128, 160, 192, 224]
    )
    job = submit(cluster, tmp_path, "--nodelist=n2", SCRIPT, suite, **in_the_image)
    run = tmp_path / "runs" / f"slurm-{job}" / "products-n2"
    wait_until(lambda: len(records(run)) > 0, "the first record", seconds=120)
    assert list((tmp_path / "local").glob("accelbench-*/image.sif"))
    urgent = submit(cluster, tmp_path, "--partition=urgent", "--nodelist=n2", "--exclusive", "--wrap=sleep 1")
    cluster.wait(urgent, "COMPLETED")
    before = records(run)
    assert 0 < len(before) < 6
    done = cluster.wait(job, "COMPLETED", "FAILED", seconds=200)
    output = (tmp_path / f"{job}.out").read_text()
    assert (done["JobState"], done["Restarts"]) == ("COMPLETED", "1"), output
    assert "DUE TO PREEMPTION" in output
    assert records(run)[: len(before)] == before
    assert_complete(run, output)
    assert not list((tmp_path / "local").iterdir())


def test_a_job_at_its_time_limit_requeues_itself_and_is_resumed(cluster: Cluster, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, "long", "behave", 2, us=[100, 1_000_000, 200, 300])
    job = submit(cluster, tmp_path, "--nodelist=n1", SCRIPT, suite, **BARE)
    run = tmp_path / "runs" / f"slurm-{job}" / "long-n1"
    wait_until(lambda: len(records(run)) > 0, "the first record", seconds=120)
    # The effect of --signal=B:TERM@120; Slurm itself checks time limits only every half minute.
    cluster.output("scancel", "--batch", "--signal=TERM", job)
    wait_until(lambda: cluster.job(job)["Restarts"] == "1", "the job to be requeued")
    assert info(run)["status"] == "interrupted"
    assert (run / "report.html").is_file()
    before = records(run)
    assert 0 < len(before) < 4
    done = cluster.wait(job, "COMPLETED", "FAILED", seconds=200)
    output = (tmp_path / f"{job}.out").read_text()
    assert done["JobState"] == "COMPLETED", output
    assert records(run)[: len(before)] == before
    assert_complete(run, output)


def test_a_cancelled_job_is_not_requeued_and_the_next_job_resumes_its_run(cluster: Cluster, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, "some", "behave", 2, us=[100, 1_000_000, 200, 300])
    job = submit(cluster, tmp_path, "--nodelist=n1", SCRIPT, suite, **BARE)
    out = tmp_path / "runs" / f"slurm-{job}"
    wait_until(lambda: len(records(out / "some-n1")) > 0, "the first record")
    cluster.output("scancel", job)
    ended = cluster.wait(job, "CANCELLED")
    wait_until(
        lambda: not cluster.output("squeue", "--noheader", "--states=all", "--job", job).count(" CG "), "its end"
    )
    output = (tmp_path / f"{job}.out").read_text()
    assert ended["Restarts"] == "0"
    assert info(out / "some-n1")["status"] == "interrupted", output
    assert f"ACCELBENCH_OUT={out}" in output
    before = records(out / "some-n1")
    assert 0 < len(before) < 4
    following = submit(cluster, tmp_path, "--nodelist=n1", SCRIPT, suite, ACCELBENCH_OUT=str(out), **BARE)
    cluster.wait(following, "COMPLETED")
    assert records(out / "some-n1")[: len(before)] == before
    assert_complete(out / "some-n1", (tmp_path / f"{following}.out").read_text())


def test_each_gpu_has_one_task(cluster: Cluster, tmp_path: Path) -> None:
    fake_python = tmp_path / "python"
    fake_python.write_text('#!/bin/sh\necho "task $SLURM_PROCID on GPU $CUDA_VISIBLE_DEVICES: $*"\n')
    fake_python.chmod(0o755)
    job = submit(cluster, tmp_path, "--gpus=2", "--nodelist=n1", SCRIPT, "quick", ACCELBENCH_PYTHON=str(fake_python))
    cluster.wait(job, "COMPLETED")
    out = tmp_path / "runs" / f"slurm-{job}"
    assert sorted((tmp_path / f"{job}.out").read_text().splitlines()) == [
        f"task {gpu} on GPU {gpu}: -m accelbench run --suite quick --device gpu --out {out}/quick-n1-gpu{gpu}"
        for gpu in (0, 1)
    ]


def test_a_gpu_without_a_driver_exits_with_status_2(cluster: Cluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, "--gpus=1", "--nodelist=n1", SCRIPT, "quick", ACCELBENCH_PYTHON=sys.executable)
    done = cluster.wait(job, "FAILED", "COMPLETED")
    assert done["ExitCode"] == "2:0"
    assert "accelbench: no GPU" in (tmp_path / f"{job}.out").read_text()


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ((), {}, "sbatch containers/slurm/accelbench.sbatch"),
        (("--array=2", "quick", "kernels"), {}, "--array=0-1"),
        (("no-such-suite",), {}, "no-such-suite"),
        (("quick",), {"ACCELBENCH_DEVICE": "gpu"}, "sbatch --gpus=1"),
        (("quick",), {"ACCELBENCH_DEVICE": "npu"}, "ACCELBENCH_DEVICE 'npu'"),
        (("quick",), {"ACCELBENCH_OUT": "/proc/here"}, "/proc/here on n2"),
        (("quick",), {"SLURM_TMPDIR": "/proc"}, "/proc on n2"),
        (("quick",), {"ACCELBENCH_PYTHON": "/nowhere/python"}, "ACCELBENCH_PYTHON /nowhere/python"),
        (("quick",), {"ACCELBENCH_PYTHON": None, "ACCELBENCH_SIF": "no.sif"}, "no.sif"),
    ],
    ids=["nothing", "array", "suite", "no GPU", "device", "results", "scratch", "Python", "SIF"],
)
def test_an_error_is_one_line_and_status_2(
    cluster: Cluster, tmp_path: Path, arguments: tuple[str, ...], changes: dict[str, str | None], message: str
) -> None:
    options = [argument for argument in arguments if argument.startswith("--")]
    suites = [argument for argument in arguments if not argument.startswith("--")]
    job = submit(cluster, tmp_path, "--nodelist=n2", *options, SCRIPT, *suites, **{**BARE, **changes})
    done = cluster.wait(job, "FAILED", "COMPLETED")
    output = (tmp_path / f"{job}.out").read_text().splitlines()
    assert done["ExitCode"] == "2:0", output
    assert message in output[0]
    assert len([line for line in output if not line.startswith("srun:")]) == 1
    assert not list((tmp_path / "local").iterdir())


def test_an_image_for_another_device_and_an_invalid_image_are_refused(
    cluster: Cluster, in_the_image: dict[str, str | None], tmp_path: Path
) -> None:
    (tmp_path / "broken.sif").write_text("not an image")
    for changes, message in (
        ({"ACCELBENCH_DEVICE": "tpu"}, "make sif DEVICE=tpu"),
        ({"ACCELBENCH_SIF": "broken.sif"}, "broken.sif"),
    ):
        job = submit(cluster, tmp_path, "--nodelist=n2", SCRIPT, "quick", **{**in_the_image, **changes})
        assert cluster.wait(job, "FAILED", "COMPLETED")["ExitCode"] == "2:0"
        (line,) = (tmp_path / f"{job}.out").read_text().splitlines()
        assert message in line
