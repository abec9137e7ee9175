"""Every GPU kernel compiled by CUDA 12, too, whose compilers have an environment of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("numba_cuda") is None, reason="numba-cuda is not installed (extra dev on Linux has it)"
)

ROOT = Path(__file__).parents[2]
PYTHON = Path(sys.prefix, "cuda12", "bin", "python")


@pytest.mark.timeout(600)
@pytest.mark.skipif(not PYTHON.exists(), reason="NOT TESTED: `make kernels-report CUDA=12` installs its compilers")
def test_every_kernel_compiles_without_spills_by_cuda_12() -> None:
    from kernels.compilation import architectures, device_kernels

    outcome = subprocess.run([PYTHON, "-m", "kernels.report"], cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert re.match(r"compiled by nvJitLink 12\.\d+, NVRTC 12\.\d+\n", outcome.stdout)
    compiled = re.findall(r" (?:8\.0|9\.0|10\.0) +\d+ +[\d,]+ +0 +0 ", outcome.stdout)
    assert len(compiled) == sum(len(architectures(kernel)) for kernel in device_kernels())
