"""The kernels under NVIDIA's compute-sanitizer, where it is installed: no stray access, no race in shared memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).with_name("verify_small.py")
FOUND = 86


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing(tool: str) -> None:
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=f"{toolkit}/bin")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, str(SCRIPT)]
    root = SCRIPT.parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    outcome = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert outcome.returncode == 0, (outcome.stdout + outcome.stderr)[-4000:]
