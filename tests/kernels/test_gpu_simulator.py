"""Every file of `simulated/`, in a process of its own: Numba's simulator is chosen when Numba is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SIMULATED = sorted(path for path in Path(__file__).with_name("simulated").glob("*.py") if path.name != "conftest.py")


@pytest.mark.parametrize("path", SIMULATED, ids=lambda path: path.stem)
def test_numba_kernels_compute_the_right_answers_in_the_cuda_simulator(path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        cwd=path.parents[3],
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
