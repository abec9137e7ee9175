"""Simulated GPU machine: a driver that executes PTX on the CPU, and a Python environment without accelbench."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.ptx.build import SOURCES, build_library

HERE = Path(__file__).parent
MISSING = ("__editable__", "accelbench", "tensorflow", "torch")
"""Prefixes of packages missing on the machine: accelbench itself and all frameworks except JAX."""
CARRIED = ("annotated_types", "pydantic", "pydantic_core", "py_spy", "typing_inspection")
"""Prefixes of packages in a separate folder, as after `pip install --target`."""

SUITES = [word for stage in ("first", "train", "rest") for word in ("--suite", f"{stage}={HERE / f'{stage}.toml'}")]
SMALL = {"REHEARSAL_SMALL": "1", "REHEARSAL_RACES_IGNORED": "1"}
"""Variables of a simulated GPU with two multiprocessors; tests.ptx finds races, at smaller sizes."""
Rehearsed = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Machine:
    """Paths of the simulated machine."""

    python: Path
    carried: Path
    programs: Path
    libraries: Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment of a shell: without CUDA_HOME, and with some packages only in PYTHONPATH."""
        return {
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join([str(HERE / "stand_ins"), str(self.carried)]),
            "LD_LIBRARY_PATH": str(self.libraries),
            "COLUMNS": "400",  # so that long paths do not wrap table rows
            **self.variables,
            **changes,
        }


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Create the machine: a Python environment with frameworks, and a folder with further packages."""
    folder = tmp_path_factory.mktemp("machine")
    libraries, carried, programs, home = (folder / name for name in ("lib", "carried", "bin", "home"))
    for made in (libraries, carried / "bin", programs, home):
        made.mkdir(parents=True)
    build_driver(libraries)
    venv.create(folder / "venv", with_pip=False)
    (installed,) = (folder / "venv").glob("lib/python3*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(MISSING):
            belongs = carried if entry.name.startswith(CARRIED) else installed
            (belongs / entry.name).symlink_to(entry)
    move_libnvvm(installed / "nvidia", folder / "cuda-13.0", programs)
    for name in ("libnvvm.so", "libnvvm.so.4"):
        # Hides a libnvvm of the host: the loader finds this file first and rejects it.
        (libraries / name).write_text("not a library")
    (carried / "bin" / "py-spy").symlink_to(Path(sys.executable).with_name("py-spy"))
    return Machine(folder / "venv" / "bin" / "python", carried, programs, libraries, {"HOME": str(home)})


def build_driver(folder: Path) -> None:
    """Build the simulated driver, with the PTX interpreter, and NVML."""
    driver, objects = HERE / "driver", folder / "objects"
    objects.mkdir()
    compile_c = ["gcc", "-O1", "-fPIC", "-c"]
    subprocess.run([*compile_c, driver / "cuda.c", "-o", objects / "cuda.o"], check=True)
    execute = [driver / "execute.cpp", "-o", objects / "execute.o"]
    subprocess.run(["g++", "-std=c++17", *compile_c[1:], f"-I{SOURCES}", *execute], check=True)
    interpreter = shutil.copy(build_library(), folder / "interpreter.so")  # another checkout may replace the original
    linked = [objects / "cuda.o", objects / "execute.o", interpreter]
    subprocess.run(["g++", "-shared", "-o", folder / "libcuda.so.1", *linked, "-ldl"], check=True)
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", driver / "nvml.c"], check=True
    )


def move_libnvvm(wheels: Path, toolkit: Path, programs: Path) -> None:
    """Move libNVVM from NVIDIA's wheels to a toolkit that is found only by its `nvcc` in PATH."""
    real = wheels.resolve()
    wheels.unlink()
    for entry in real.glob("*/*/*"):
        place = wheels / entry.relative_to(real)
        if entry.name.startswith("libnvvm"):
            place = toolkit / "nvvm" / "lib64" / entry.name
        elif entry.name == "libdevice":
            place = toolkit / "nvvm" / "libdevice"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(entry)
    (toolkit / "bin").mkdir()
    (toolkit / "bin" / "nvcc").write_text("#!/bin/sh\n")
    (toolkit / "bin" / "nvcc").chmod(0o755)
    (programs / "nvcc").symlink_to(toolkit / "bin" / "nvcc")


@pytest.fixture(scope="session")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File in which the driver logs kernel launches."""
    return tmp_path_factory.mktemp("driver") / "launches"


@pytest.fixture(scope="session")
def rehearse(machine: Machine, launches: Path) -> Rehearsed:
    """Return a function that runs `python -m …` or `python -c …` on the machine, in the project's root."""

    def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
        words = arguments if arguments[0] == "-c" else ("-m", *arguments)
        return subprocess.run(
            [machine.python, *map(str, words)],
            cwd=ROOT,
            env=machine.environment(REHEARSAL_LAUNCHES=str(launches), **changes),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=580,
        )

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("day") / "out"


@pytest.fixture(scope="session")
def day(rehearse: Rehearsed, folder: Path) -> subprocess.CompletedProcess[str]:
    """Result of a complete `gpu-day`, with a short limit for its tests, which are too large for an interpreter."""
    return rehearse(
        *("accelbench", "gpu-day", "--out", folder, *SUITES, "--limit", "tests=4", "--part-size", "0.02"), **SMALL
    )
