"""`accelbench gpu-day` on a simulated GPU.

Command line, plan, workers, compilers, telemetry, report and archive are real, and the PTX interpreter executes the
kernels, which are verified. NVBench's times are made up. The card's name and all verifications contain `MARK`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import info, records
from tests.rehearsal.conftest import SUITES, Rehearsed
from tests.rehearsal.stand_ins.mark import MARK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TIMED = 20
"""Number of executions by the NVBench stand-in, isolated and batched."""


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((folder / "day.json").read_text(encoding="utf-8"))["stages"]
    return found


@pytest.mark.usefixtures("day")
def test_every_stage_runs_after_an_unfinished_one(folder: Path) -> None:
    assert {name: entry["state"] for name, entry in entries(folder).items()} == {
        "probe": "done",
        "tests": "out of time",
        "first": "done",
        "train": "all skipped",  # the installed frameworks use no GPU
        "rest": "done",
        "sanitizer": "done",
    }


def test_an_unfinished_stage_leads_to_exit_status_1(day: subprocess.CompletedProcess[str]) -> None:
    assert day.returncode == 1, day.stdout + day.stderr


def test_the_probe_lists_versions_programs_and_the_card(day: subprocess.CompletedProcess[str], folder: Path) -> None:
    log = (folder / "probe.log").read_text(encoding="utf-8")
    for fact in ("CUDA_HOME", "numba-cuda ", "compute-sanitizer: ", f"NVIDIA H100 80GB HBM3 ({MARK})"):
        assert fact in log
        assert fact in day.stdout


@pytest.mark.usefixtures("day")
def test_the_first_stage_is_measured_and_verified_by_workers(folder: Path) -> None:
    measured = {
        (record["point"]["benchmark"], record["point"]["params"].get("impl")): record
        for record in records(folder / "first")
    }
    assert {record["status"] for record in measured.values()} == {"measured"}
    assert all(record["verification"]["passed"] for record in measured.values())
    assert all(MARK in record["verification"]["method"] for record in measured.values())
    assert measured["nqueens", "tuned"]["verification"]["found"] == "92 solutions, 293 nodes"
    ours = measured["matmul", "numba"]
    assert (ours["timing"]["timer"], ours["timing"]["batch"]) == ("nvbench", pytest.approx(0.98e-3))
    assert ours["peak"]["value"] is None, "no time of an interpreter is a share of a card's peak"
    assert MARK in ours["peak"]["reason"]
    assert 400 <= ours["telemetry"]["gauges"]["gpu.power"]["median"] < 410
    assert ours["telemetry"]["counters"]["gpu.energy_j"] > 0
    assert ours["telemetry"]["throttle_reasons"] == ["power limit"]
    assert not any("power limit" in flag for flag in ours["noise"])
    assert measured["launch", "cupy"]["timing"]["timer"] == "host"
    assert (folder / "first" / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("day")
def test_kernels_are_launched_at_least_once_per_timed_execution(launches: Path) -> None:
    launched = Counter(line.split()[1] for line in launches.read_text(encoding="utf-8").splitlines())
    for kernel in ("multiply", "nqueens", "empty"):
        assert sum(count for name, count in launched.items() if kernel in name) > TIMED, launched


@pytest.mark.usefixtures("day")
def test_training_workloads_run_on_installed_frameworks(folder: Path) -> None:
    assert not (folder / "train-tensorflow").exists()
    (record,) = records(folder / "train-jax")
    assert (record["status"], record["point"]["backend"]) == ("skipped", "jax")
    assert "cpu" in record["reason"]


@pytest.mark.usefixtures("day")
def test_the_last_stage_repeats_no_point(folder: Path) -> None:
    assert [point["params"].get("impl") for point in info(folder / "rest")["plan"]] == ["numba", None]


def test_the_final_table_compares_our_kernels_with_the_vendors(day: subprocess.CompletedProcess[str]) -> None:
    table = day.stdout[day.stdout.rindex("\nstage ") :]
    ours = next(line for line in table.splitlines() if "matmul impl=numba" in line)
    assert "524.3 MFLOP/s" in ours
    assert "100 %" in ours
    assert "of shared-memory rate" in next(line for line in table.splitlines() if "nqueens" in line)


@pytest.mark.usefixtures("day")
def test_the_archive_contains_every_run_and_log(rehearse: Rehearsed, folder: Path) -> None:
    parts = sorted(folder.glob("runs.tar.xz.part*"))
    assert len(parts) > 1
    process = rehearse("accelbench", "report", f"{parts[0]}:first")
    assert process.returncode == 0, process.stderr
    unpacked = Path(process.stdout.split()[-1]).parents[1]
    for name in ("day.json", "probe.log", "first", "train-jax", "rest"):
        assert (unpacked / name).exists(), name
    assert records(unpacked / "first") == records(folder / "first")


@pytest.mark.usefixtures("day")
def test_a_second_command_does_not_repeat_finished_stages(rehearse: Rehearsed, folder: Path, launches: Path) -> None:
    before, launched = entries(folder), launches.stat().st_size
    finished = "probe,first,train,rest,sanitizer"
    process = rehearse("accelbench", "gpu-day", "--out", folder, *SUITES, "--stages", finished)
    assert process.returncode == 0, process.stdout + process.stderr
    assert entries(folder) == before
    assert launches.stat().st_size == launched
    assert (folder / "runs.tar.xz").is_file()
    assert not list(folder.glob("runs.tar.xz.part*"))


@pytest.fixture
def probed(folder: Path, day: object) -> dict[str, str]:
    """Return the probe's checks by name, as "state: finding"."""
    lines = (folder / "probe.log").read_text(encoding="utf-8").splitlines()
    cells = (re.split(r"  +", line) for line in lines if line.startswith(("ok ", "warn ", "missing ")))
    return {name: f"{state}: {found}" for state, name, found, *_ in cells}


@pytest.fixture
def numba_product(folder: Path) -> dict[str, Any]:
    return next(r for r in records(folder / "first") if r["point"]["params"].get("impl") == "numba")


def test_numba_finds_libnvvm_in_a_toolkit_without_environment_variables(
    probed: dict[str, str], numba_product: dict[str, Any]
) -> None:
    assert "libNVVM" in probed["CUDA toolkit"]
    assert numba_product["status"] == "measured"


def test_the_doctor_launches_a_kernel_and_verifies_its_result(probed: dict[str, str]) -> None:
    for library in ("Numba", "CuPy"):
        assert probed[f"{library} on the GPU"].startswith("ok: ")
    for fact in ("600", "1650 MHz"):
        assert fact in probed["NVBench on the GPU"]
    assert probed["device gpu"].startswith("ok: ")


def test_py_spy_is_found_in_a_pip_target_folder(probed: dict[str, str]) -> None:
    assert probed["py-spy"].startswith("ok: ")


def test_training_workloads_use_the_first_installed_framework(folder: Path) -> None:
    (training,) = (point for point in info(folder / "rest")["plan"] if point["benchmark"] == "cnn-mnist")
    assert training["backend"] == "jax"


def test_sensors_are_read_while_nvbench_holds_the_gil(numba_product: dict[str, Any]) -> None:
    power = numba_product["telemetry"]["gauges"]["gpu.power"]
    assert power["minimum"] < power["maximum"], "only one reading"


def test_energy_includes_all_working_cards(rehearse: Rehearsed, tmp_path: Path) -> None:
    process = rehearse(
        *("accelbench", "run", "all-gpus-matmul", "--device", "gpu", "--no-ceilings", "--max-seconds", "1"),
        *("--rounds", "1", "--param", "dtype=float32", "--param", "n=64", "--out", tmp_path / "run"),
        REHEARSAL_CARDS="2",
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    watts = record["telemetry"]["counters"]["gpu.energy_j"] / record["telemetry"]["counters"]["wall_s"]
    assert 850 < watts < 950, "the cards draw 400 and 500 W"
