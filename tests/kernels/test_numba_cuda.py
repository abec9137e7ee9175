"""The compilers of Python kernels: newer versions than those of the development set, and Numba-CUDA's successor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from profiling.benchmark import Skip
from profiling.records.point import Point
from tests.conftest import ROOT
from tests.fixtures.interpreters import find_python
from tests.fixtures.stub_driver import compile_library
from tests.requirements import not_tested

PACKAGES = ("pydantic", "numba", "numba-cuda", "numpy", "nvidia-nvvm", "nvidia-cuda-nvrtc")
SUCCESSOR = ("numba-cuda-mlir==0.6.0", "filelock", "psutil", "scipy")
"""What imports all kernels beside the above."""
DRIVER = """
#include <string.h>
static int accept(void) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetProcAddress_v2(const char *name, void **found, int asked, unsigned long long flags, int *status) {
  *found = strcmp(name, "cuDriverGetVersion") ? (void *)accept : (void *)cuDriverGetVersion;
  if (status) *status = 0;
  return 0;
}
"""
"""A driver that says yes to everything: the successor loads one to compile."""
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


def make_environment(folder: Path, version: str) -> Path:
    """Return the interpreter of a new virtual environment without packages."""
    subprocess.run([str(find_python(version)), "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, *packages: str) -> None:
    """Install packages into that interpreter's environment; skips the test where they cannot be had."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-compile", "--quiet"]
    installed = subprocess.run([*pip, "--disable-pip-version-check", *packages], capture_output=True, text=True)
    if installed.returncode != 0:
        not_tested("package-index", f"pip could not install {' '.join(packages)}: {installed.stderr.splitlines()[-1]}")


def of(version: str) -> ParameterSet:
    return pytest.param(version, marks=pytest.mark.needs(f"python{version}", "package-index"))


@pytest.fixture(scope="module", params=[of("3.12"), of("3.13")])
def newest(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Python of that version with the newest Numba, Numba-CUDA and NumPy: half a gigabyte, removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        python = make_environment(Path(folder), request.param)
        install(python, *PACKAGES)
        yield python


def run_python(python: Path, *arguments: str, **changes: str) -> str:
    """What it prints, with this repository's packages."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    outcome = subprocess.run([python, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.mark.slow
def test_kernels_compile_with_the_newest_numpy(newest: Path) -> None:
    numpy, *compiled = run_python(newest, "-c", COMPILE).splitlines()
    assert tuple(map(int, numpy.split(".")[:2])) >= (2, 5)
    assert compiled == ["stream numba triad float32", "nqueens tuned"]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("newest", [of("3.12")], indirect=True)
def test_the_successor_compiles_what_the_table_says(newest: Path, tmp_path: Path) -> None:
    install(newest, *SUCCESSOR)
    compile_library(tmp_path / "libcuda.so.1", DRIVER)
    driver = {"LD_LIBRARY_PATH": str(tmp_path), "ACCELBENCH_NUMBA": "numba-cuda-mlir"}
    told = run_python(newest, "-W", "ignore", "-m", "tests.kernels.compilers", "--ptx", **driver)
    rows = {name: rest for name, *rest in (line.split("\t") for line in told.splitlines())}
    failed = {name: rest[1] for name, rest in rows.items() if rest[0] == "FAILED"}
    table = (ROOT / "docs/compilers.md").read_text(encoding="utf-8")
    assert SUCCESSOR[0].replace("==", " ") in table
    assert failed.keys() == set(re.findall(r"^\| (.+?) \|.*\| does not compile \|$", table, re.MULTILINE))
    assert "threadfence" in failed["uts sharing"]
    for name in ("matmul numba float32 128x128", "matmul numba float64 128x64"):
        assert rows[name] == ["loads from", "global", "shared"]


@pytest.mark.parametrize(
    ("installed", "asked", "successor"),
    [
        (("numba_cuda", "numba_cuda_mlir"), "", False),
        (("numba_cuda", "numba_cuda_mlir"), "numba-cuda-mlir", True),
        (("numba_cuda_mlir",), "", True),
        (("numba_cuda_mlir",), "numba-cuda", False),
        ((), "", False),
    ],
)
def test_the_successor_is_taken_where_numba_cuda_is_missing_or_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], asked: str, successor: bool
) -> None:
    from kernels import numba_cuda

    monkeypatch.setattr(numba_cuda, "is_installed", installed.__contains__)
    monkeypatch.setenv(numba_cuda.CHOICE, asked)
    assert numba_cuda._takes_successor() is successor


def test_a_compiler_of_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import numba_cuda

    monkeypatch.setenv(numba_cuda.CHOICE, "nvcc")
    with pytest.raises(ValueError, match="ACCELBENCH_NUMBA='nvcc' names no compiler: take numba-cuda or numba-cuda"):
        numba_cuda._takes_successor()


def test_what_the_successor_lacks_is_skipped_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import numba_cuda
    from kernels.atomics import gpu_numba
    from kernels.treesearch.device_search import whole_device
    from kernels.treesearch.nqueens import gpu_tuned

    monkeypatch.setattr("kernels.treesearch.device_search.require_compute_capability", lambda needed, what: None)
    monkeypatch.setattr(numba_cuda, "successor", True)
    for prepare in (
        lambda: whole_device(4),
        lambda: gpu_tuned.prepare(Point("nqueens", "gpu", {"queens": 8})),
        lambda: gpu_numba.prepare(Point("atomics", "gpu", {"target": "block", "dtype": "int32"})),
    ):
        with pytest.raises(Skip, match="which numba-cuda-mlir does not compile: install numba-cuda"):
            prepare()
