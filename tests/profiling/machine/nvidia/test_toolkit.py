"""Tests of the search for the CUDA toolkit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.profiling.machine.nvidia.toolkit import VARIABLES, toolkit, toolkit_version
from tests.conftest import ROOT
from tests.fixtures.machines import build
from tests.fixtures.stub_driver import compile_library, run_with_driver

LIBNVVM = "nvvm/lib64/libnvvm.so.4"


@pytest.fixture(autouse=True)
def no_toolkit_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_driver: None) -> None:
    for name in (*VARIABLES, "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def found(root: Path) -> str | None:
    """Return the toolkit found below this root, without a driver."""
    folder = toolkit(root)
    return None if folder is None else str(folder.relative_to(root))


def installed(*folders: str) -> dict[str, str]:
    return {f"{folder}/{LIBNVVM}": "" for folder in folders}


def test_the_folder_in_a_variable_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, installed("usr/local/cuda"))
    monkeypatch.setenv("CUDA_HOME", "/somewhere")
    assert toolkit(tmp_path) == Path("/somewhere")
    monkeypatch.setenv("CUDA_PATH", "/elsewhere")
    assert toolkit(tmp_path) == Path("/elsewhere")


def test_usr_local_cuda_comes_before_the_newest_version(tmp_path: Path) -> None:
    build(tmp_path, installed("usr/local/cuda-12.9", "usr/local/cuda-13.0", "usr/local/cuda-9.2"))
    assert found(tmp_path) == "usr/local/cuda-13.0"
    (tmp_path / "usr/local/cuda").symlink_to("cuda-12.9")
    assert found(tmp_path) == "usr/local/cuda"


def test_a_folder_without_libnvvm_is_ignored(tmp_path: Path) -> None:
    build(tmp_path, {"usr/local/cuda-13.0/bin/nvcc": "", "usr/local/cuda-13.0/lib64/libcudart.so.13": ""})
    assert found(tmp_path) is None
    build(tmp_path, installed("opt/cuda"))
    assert found(tmp_path) == "opt/cuda"


def test_the_toolkit_of_nvcc_on_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, installed("apps/cuda"), {"apps/cuda/bin/nvcc": ""})
    (tmp_path / "apps/cuda/bin/nvcc").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").symlink_to(tmp_path / "apps/cuda/bin/nvcc")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert found(tmp_path) == "apps/cuda"


def test_a_conda_environment_with_libnvvm_is_a_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, installed("conda"), {"conda/conda-meta/history": ""})
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    assert found(tmp_path) == "conda"


def test_a_toolkits_version_is_in_its_name_or_header(tmp_path: Path) -> None:
    build(
        tmp_path,
        installed("cuda-12.9", "unknown"),
        {"conda/targets/x86_64-linux/include/cuda.h": "#define CUDA_VERSION 13020"},
    )
    assert toolkit_version(tmp_path / "cuda-12.9") == (12, 9)
    assert toolkit_version(tmp_path / "conda") == (13, 2)
    assert toolkit_version(tmp_path / "unknown") is None


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("driver", "expected"), [("13000", "13.0"), ("12080", "12.4"), ("13040", "13.1")])
def test_no_toolkit_is_newer_than_the_driver_supports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, expected: str
) -> None:
    build(tmp_path, installed(*(f"usr/local/cuda-{version}" for version in ("12.4", "13.0", "13.1"))))
    monkeypatch.undo()
    script = "from pathlib import Path; from accelbench.profiling.machine.nvidia.toolkit import toolkit; "
    script += f"print(toolkit(Path({str(tmp_path)!r})))"
    printed = run_with_driver(script, STUB_VERSION=driver, PYTHONPATH=str(ROOT))
    assert printed.strip() == str(tmp_path / f"usr/local/cuda-{expected}")


FIND_LIBNVVM = """
import sys
from cuda import pathfinder
from accelbench.profiling.machine.nvidia.toolkit import use_toolkit

if sys.argv[1] == "named":
    use_toolkit()
try:
    print(pathfinder.load_nvidia_dynamic_lib("nvvm").abs_path)
except pathfinder.DynamicLibNotFoundError:
    print("not found")
"""


@pytest.mark.needs("gcc", "no-toolkit")
def test_cudas_packages_find_libnvvm_with_cuda_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    monkeypatch.undo()
    # Neither wheels nor this machine's own toolkit must be found.
    packages, broken, home = tmp_path / "packages", tmp_path / "broken", tmp_path / "cuda"
    packages.mkdir()
    (packages / "cuda").symlink_to(Path(pathfinder.__file__).parents[1])
    build(broken, dict.fromkeys(("libnvvm.so", "libnvvm.so.4"), ""))
    build(home, {"bin/nvcc": ""})
    (home / "bin/nvcc").chmod(0o755)
    compile_library(home / LIBNVVM, "int nvvmVersion(int *major, int *minor) { *major = *minor = 2; return 0; }")
    variables = {
        "PATH": f"{home / 'bin'}:/usr/bin:/bin",
        "PYTHONPATH": f"{ROOT}:{packages}",
        "LD_LIBRARY_PATH": str(broken),
    }
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"

    def libnvvm(how: str) -> str:
        command = [python, "-S", "-c", FIND_LIBNVVM, how]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()

    assert libnvvm("unnamed") == "not found"
    assert libnvvm("named") == str(home / LIBNVVM)


def test_importing_the_kernel_compiler_sets_cuda_home(tmp_path: Path) -> None:
    build(tmp_path, installed("cuda"), {"cuda/bin/nvcc": ""})
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    program = "import os, accelbench.kernels.lib.gpu.numba_cuda; print(os.environ['CUDA_HOME'])"
    variables = {**os.environ, "PATH": f"{tmp_path / 'cuda/bin'}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    outcome = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert Path(outcome.stdout.strip()).joinpath("nvvm/lib64").is_dir()
