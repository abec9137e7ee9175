"""Numba-CUDA with newer versions of Python and NumPy than the development environment has."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from accelbench.kernels.lib.gpu import numba_cuda
from accelbench.profiling.benchmark import Skip
from tests.conftest import ROOT
from tests.fixtures.interpreters import find_python
from tests.requirements import not_tested

PACKAGES = ("pydantic", "numba", "numba-cuda", "numpy", "nvidia-nvvm", "nvidia-cuda-nvrtc")
COMPILE = """
import numpy
from accelbench.kernels.lib.gpu.compilation import to_ptx
from accelbench.kernels.stream import gpu_numba
from accelbench.kernels.treesearch.nqueens import gpu_tuned

print(numpy.__version__)
for kernel in [*gpu_numba.device_code(), *gpu_tuned.device_code()]:
    if kernel.name in ("stream numba triad float32", "nqueens tuned"):
        assert ".entry" in to_ptx(kernel, (9, 0))
        print(kernel.name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=pytest.mark.needs(f"python{version}", "package-index"))
        for version in ("3.12", "3.13")
    ],
)
def test_kernels_compile_with_the_newest_numpy(version: str) -> None:
    with TemporaryDirectory() as folder:  # removed after the test: half a gigabyte
        subprocess.run([str(find_python(version)), "-m", "venv", "--without-pip", folder], check=True)
        python = Path(folder, "bin", "python")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-compile", "--quiet"]
        installed = subprocess.run([*pip, "--disable-pip-version-check", *PACKAGES], capture_output=True, text=True)
        if installed.returncode != 0:
            not_tested("package-index", f"pip could not install: {installed.stderr.splitlines()[-1]}")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        outcome = subprocess.run([python, "-c", COMPILE], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    numpy, *compiled = outcome.stdout.splitlines()
    assert tuple(map(int, numpy.split(".")[:2])) >= (2, 5)
    assert compiled == ["stream numba triad float32", "nqueens tuned"]


@pytest.mark.parametrize("found", ["0.25.3", "0.2", None])
def test_an_old_numba_cuda_is_a_skip_with_the_install_command(
    found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(numba_cuda, "version", version)
    with pytest.raises(Skip, match=r"pip install 'numba-cuda>=0\.26'"):
        numba_cuda.require_version()


@pytest.mark.parametrize("found", ["0.26.0", "0.30.4", "1.0rc1"])
def test_a_newer_numba_cuda_is_used(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_cuda, "version", lambda name: found)
    numba_cuda.require_version()
