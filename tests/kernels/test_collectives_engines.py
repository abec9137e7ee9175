"""Communication libraries of the collectives, in processes started by real launchers."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from accelbench.kernels.collectives import OPERATIONS
from accelbench.kernels.collectives.messages import bus_factor, message
from tests.conftest import Run as Command
from tests.conftest import command, environment, records
from tests.fixtures.processes import children, command_line

pytestmark = pytest.mark.slow


def check_records(found: list[dict[str, Any]], ranks: int) -> None:
    for record in found:
        assert record["status"] == "measured", record["reason"]
        assert record["verification"]["passed"]
        if record["point"]["benchmark"] != "collectives":
            continue
        op, seconds = record["point"]["params"]["op"], record["timing"]["summary"]["median"]
        assert record["work"]["bytes"] == message(op, record["point"]["params"]["bytes"], ranks).bytes
        bus = record["metrics"]["bus_bandwidth"]
        assert bus["unit"] == "B/s"
        assert bus["value"] == pytest.approx(record["work"]["bytes"] / seconds * bus_factor(op, ranks))
        assert ("latency" in record["metrics"]) == (record["work"]["bytes"] <= 1024)


GLOO = """
description = "All operations, one of them on a short message"
[[benchmark]]
name = "collectives"
axes = { impl = ["gloo"], bytes = [1000000], op = [
    "all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all",
] }
[[benchmark]]
name = "collectives"
axes = { impl = ["gloo"], bytes = [8], op = ["send-recv"] }
"""
"""Each point imports PyTorch anew in each rank."""


@pytest.mark.needs("torch")
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_every_operation_is_correct_with_gloo(accelbench: Command, tmp_path: Path, ranks: int) -> None:
    (tmp_path / "gloo.toml").write_text(GLOO, encoding="utf-8")
    process = accelbench(
        *("launch", "--procs", str(ranks), "run", "--suite", "gloo.toml", "--device", "cpu", "--no-ceilings"),
        *("--rounds", "1", "--max-seconds", "0.1", "--patience", "0", "--out", "run"),
    )
    assert process.returncode == 0, process.stdout + process.stderr
    found = records(tmp_path / "run")
    assert {each["point"]["params"]["op"] for each in found} == {*OPERATIONS}
    check_records(found, ranks)


def mpirun(folder: Path, ranks: int, *arguments: str) -> subprocess.Popen[str]:
    """Start ranks by mpirun."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    common = ("--device", "cpu", "--no-ceilings", "--param", "impl=mpi", "--out", "run")
    return subprocess.Popen(
        ["mpirun", *as_root, "--oversubscribe", "-n", str(ranks), *command("run", *arguments, *common)],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


@pytest.mark.needs("mpirun")
def test_consecutive_benchmarks_can_use_mpi(tmp_path: Path) -> None:
    """Each benchmark has its own workers, but a process started by an MPI launcher can initialise MPI only once."""
    sizes = ("--param", "pingpong.bytes=8", "--param", "collectives.bytes=8,1000000")
    process = mpirun(tmp_path, 2, "pingpong", "collectives", "--max-seconds", "0.1", *sizes)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    found = records(tmp_path / "run")
    assert len(found) == 1 + 2 * len(OPERATIONS)
    check_records(found, 2)


@pytest.mark.needs("mpirun")
def test_mpi_requires_all_of_its_processes(tmp_path: Path) -> None:
    point_ = ("--param", "op=all-reduce", "--param", "bytes=8", "--param", "processes=2,3")
    process = mpirun(tmp_path, 3, "collectives", "--max-seconds", "0.1", *point_)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    fewer, all_ = records(tmp_path / "run")
    assert fewer["status"] == "skipped"
    assert "all 3 processes" in fewer["reason"]
    check_records([all_], 3)


@pytest.mark.needs("mpirun")
def test_the_next_worker_can_use_mpi_after_a_killed_one(tmp_path: Path) -> None:
    process = mpirun(
        tmp_path, 2, "collectives", "--max-seconds", "6", "--param", "op=all-reduce", "--param", "bytes=8,9"
    )
    workers: list[psutil.Process] = []
    while len(workers) < 2 and process.poll() is None:
        time.sleep(0.2)
        below = children(process.pid, recursive=True)
        workers = [each for each in below if "accelbench.execution.worker" in command_line(each)]
    time.sleep(1.5)  # at any stage: prepared or not, between samples or in one; steady samples end after two
    workers[0].kill()
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 1, said
    died, next_ = records(tmp_path / "run")
    assert "SIGKILL" in died["reason"]
    # If the worker was killed in an operation, MPI may stay blocked in it: then the next point fails with that reason.
    if next_["status"] == "failed":
        assert "blocked" in next_["reason"]
    else:
        check_records([next_], 2)
