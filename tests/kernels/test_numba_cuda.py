"""Python kernels compiled under newer versions of Python and NumPy than those of the development set."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("numba", "numba-cuda", "numpy", "nvidia-nvvm", "nvidia-cuda-nvrtc")
COMPILE = """
import numpy
from kernels.compilation import to_ptx
from kernels.stream import gpu_numba
from kernels.treesearch.nqueens import gpu_tuned

print(numpy.__version__)
for kernel in [*gpu_numba.device_code(), *gpu_tuned.device_code()]:
    if kernel.name in ("stream numba triad float32", "nqueens tuned"):
        assert ".entry" in to_ptx(kernel, (9, 0))
        print(kernel.name)
"""


def find_python(version: str) -> Path | None:
    """An interpreter of that version: beside the running one, among pyenv's, or on PATH."""
    name, pyenv = f"python{version}", os.environ.get("PYENV_ROOT")
    folders = [Path(sys.base_prefix).parent, *([Path(pyenv) / "versions"] if pyenv else []), Path.home() / ".pyenv"]
    found = chain.from_iterable(folder.glob(f"{version}*/bin/{name}") for folder in folders)
    named = [Path(sys.base_prefix) / "bin" / name, *found, *map(Path, filter(None, [shutil.which(name)]))]
    return next((python for python in named if python.exists() and _is_version(python, version)), None)


def _is_version(python: Path, version: str) -> bool:
    """Whether it starts: pyenv puts a launcher on PATH for versions that are not chosen, too."""
    told = subprocess.run([python, "--version"], capture_output=True, text=True)
    return told.returncode == 0 and told.stdout.startswith(f"Python {version}.")


def make_environment(folder: Path, version: str, *packages: str) -> Path:
    """The interpreter of a new virtual environment with these packages; skips the test where it cannot be made."""
    base = find_python(version)
    if base is None:
        pytest.skip(f"NOT TESTED: no Python {version} was found on this machine")
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-compile", "--quiet"]
    installed = subprocess.run([*pip, "--disable-pip-version-check", *packages], capture_output=True, text=True)
    if installed.returncode != 0:
        pytest.skip(f"NOT TESTED: pip could not install {' '.join(packages)}: {installed.stderr.splitlines()[-1]}")
    return python


@pytest.fixture(scope="module", params=["3.12", "3.13"])
def newest(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Python of that version with the newest Numba, Numba-CUDA and NumPy: half a gigabyte, removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield make_environment(Path(folder), request.param, *PACKAGES)


def run_python(python: Path, program: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """That program's outcome, with this repository's packages."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    return subprocess.run([python, "-c", program], cwd=ROOT, env=variables, capture_output=True, text=True)


def test_kernels_compile_with_the_newest_numpy(newest: Path) -> None:
    outcome = run_python(newest, COMPILE)
    assert outcome.returncode == 0, outcome.stderr
    numpy, *compiled = outcome.stdout.splitlines()
    assert tuple(map(int, numpy.split(".")[:2])) >= (2, 5)
    assert compiled == ["stream numba triad float32", "nqueens tuned"]
