"""Tests without installed packages, as on a bare node, where only PYTHONPATH leads to them."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from accelbench.profiling.machine.nvidia.libcuda import CudaDevice
from tests.conftest import ROOT
from tests.gpu.conftest import jobs


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment without packages and without a link to this checkout; return its interpreter."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_the_command_is_found_from_any_working_directory(bare_python: Path) -> None:
    packages = os.pathsep.join(path for path in sys.path if Path(path).name.endswith("-packages"))
    chosen = "tests/accelbench/commands/test_command_line.py::test_a_usage_error_is_one_line_and_status_2"
    process = subprocess.run(
        [bare_python, "-m", "pytest", "-p", "no:cacheprovider", "-q", chosen, "-k", "matmull"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "1 passed" in process.stdout


def card(gib: int) -> CudaDevice:
    return CudaDevice("a card", "GPU-0", "0000:06:00.0", gib << 30, 132, 50 << 20, "9.0")


@pytest.mark.parametrize(
    ("cpus", "host_gib", "card_gib", "expected"),
    [(16, 120, 80, 8), (4, 120, 80, 2), (16, 20, 80, 2), (16, 120, 16, 2), (1, 4, 4, 1), (224, 2000, 180, 8)],
)
def test_the_number_of_gpu_test_processes_is_limited_by_cpus_and_memory(
    cpus: int, host_gib: int, card_gib: int, expected: int
) -> None:
    assert jobs(cpus, host_gib << 30, card(card_gib), shared=True) == expected


def test_an_exclusive_card_is_tested_by_one_process() -> None:
    assert jobs(16, 120 << 30, card(80), shared=False) == 1
