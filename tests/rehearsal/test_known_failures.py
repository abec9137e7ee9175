"""What would once have spoilt a card's first hour, each seen where there is no card."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from profiling.analysis.roofline import share_of_peak_at_clock
from profiling.records.record import Record
from tests.conftest import info, records
from tests.rehearsal.conftest import Rehearsed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def probed(folder: Path, day: object) -> dict[str, str]:
    """The probe's checks: how each is and what was found, by its name."""
    lines = (folder / "probe.log").read_text(encoding="utf-8").splitlines()
    cells = (re.split(r"  +", line) for line in lines if line.startswith(("ok ", "warn ", "missing ")))
    return {name: f"{state}: {found}" for state, name, found, *_ in cells}


@pytest.fixture
def numba_product(folder: Path) -> dict[str, Any]:
    return next(r for r in records(folder / "first") if r["point"]["params"].get("impl") == "numba")


def test_numba_finds_libnvvm_in_a_toolkit_that_no_variable_names(
    probed: dict[str, str], numba_product: dict[str, Any]
) -> None:
    assert probed["CUDA toolkit"].endswith("has libNVVM")
    assert numba_product["status"] == "measured"


def test_the_doctor_launches_a_kernel_and_looks_at_its_answer(probed: dict[str, str]) -> None:
    for library in ("Numba", "CuPy"):
        assert probed[f"{library} on the GPU"].startswith("warn: ArithmeticError: the kernel ran, and its answer")
    assert "600 samples at 1650 MHz" in probed["NVBench on the GPU"]
    assert probed["device gpu"].startswith("missing: cannot be used: Numba on the GPU")


def test_py_spy_is_found_in_the_folder_of_what_was_carried(probed: dict[str, str]) -> None:
    assert probed["py-spy"].startswith("ok: attached")


def test_trainings_take_the_first_framework_that_is_there(folder: Path) -> None:
    (training,) = (point for point in info(folder / "rest")["plan"] if point["benchmark"] == "cnn-mnist")
    assert training["backend"] == "jax"


def test_the_peak_is_scaled_by_the_clock_of_the_samples(numba_product: dict[str, Any]) -> None:
    share = share_of_peak_at_clock(Record.model_validate_json(json.dumps(numba_product)))
    assert "at 1650 MHz" in share.of


def test_sensors_are_read_while_nvbench_holds_pythons_lock(numba_product: dict[str, Any]) -> None:
    power = numba_product["telemetry"]["gauges"]["gpu.power"]
    assert power["minimum"] < power["maximum"], "one reading only"


def test_energy_is_that_of_every_card_that_works(rehearse: Rehearsed, tmp_path: Path) -> None:
    process = rehearse(
        *("accelbench", "run", "all-gpus-peak-arith", "--device", "gpu", "--no-ceilings", "--max-seconds", "1"),
        *("--out", tmp_path / "run"),
        NULL_DRIVER_CARDS="2",
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    watts = record["telemetry"]["counters"]["gpu.energy_j"] / record["telemetry"]["counters"]["wall_s"]
    assert 850 < watts < 950, "the cards draw 400 and 500 W"
