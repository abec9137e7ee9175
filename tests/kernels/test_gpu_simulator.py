from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SIMULATED = Path(__file__).with_name("simulated_gpu.py")


def test_numba_kernels_compute_the_right_answers_in_the_cuda_simulator() -> None:
    """In a process of its own: the simulator is chosen when Numba is imported, and must not reach other tests."""
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SIMULATED)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        cwd=SIMULATED.parents[2],
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
