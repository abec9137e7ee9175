"""The folder of the CUDA toolkit on this machine, also where no variable names it.

CUDA's Python packages look for libNVVM in wheels, in an active conda environment, where the loader looks, and in
CUDA_PATH or CUDA_HOME. The installer sets none of these, and puts libNVVM where the loader does not look.
Source: CUDA Installation Guide for Linux, "Post-installation Actions"; documentation of `cuda.pathfinder`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from accelbench.profiling.machine.nvidia.libcuda import CudaError, Driver, NoDriver

VARIABLES = ("CUDA_PATH", "CUDA_HOME")
"""The variables that name a toolkit, in the order in which `cuda.pathfinder` reads them."""
LIBNVVM = "nvvm/lib64/libnvvm.so*"
Version = tuple[int, int]


def toolkit(root: Path = Path("/")) -> Path | None:
    """Return the folder that CUDA_PATH or CUDA_HOME names, or of a toolkit that has libNVVM and suits the driver.

    A driver loads no PTX of a CUDA newer than the one that it serves. `root` is where `/usr/local` and `/opt` are.
    """
    named = next(filter(None, map(os.environ.get, VARIABLES)), None)
    if named:
        return Path(named)
    newest = _served()
    return next((folder for folder in _usual_folders(root) if _suits(folder, newest)), None)


def use_toolkit() -> None:
    """Name the toolkit of this machine to this process, and those it starts, where no variable does."""
    if not any(map(os.environ.get, VARIABLES)) and (folder := toolkit()):
        os.environ["CUDA_HOME"] = str(folder)


def toolkit_version(folder: Path) -> Version | None:
    """Return a toolkit's CUDA version, such as (13, 0): what its folder is called, else what its header says."""
    if called := re.fullmatch(r"cuda-(\d+)\.(\d+)", folder.resolve().name):
        return int(called[1]), int(called[2])
    for header in (folder / "include/cuda.h", *sorted(folder.glob("targets/*/include/cuda.h"))):
        if header.is_file():
            stated = re.search(r"#define CUDA_VERSION (\d+)", header.read_text(encoding="utf-8", errors="replace"))
            if stated:
                return int(stated[1]) // 1000, int(stated[1]) % 1000 // 10
    return None


def _usual_folders(root: Path) -> Iterator[Path]:
    """Yield the administrator's choice, then the newest, then what PATH leads to."""
    local = root / "usr/local"
    yield local / "cuda"
    yield from sorted(local.glob("cuda-[0-9]*"), key=lambda folder: toolkit_version(folder) or (0, 0), reverse=True)
    yield root / "opt/cuda"
    if compiler := shutil.which("nvcc"):
        yield Path(compiler).resolve().parents[1]
    if (conda := Path(os.environ.get("CONDA_PREFIX") or sys.prefix)).joinpath("conda-meta").is_dir():
        yield conda


def _suits(folder: Path, newest: Version | None) -> bool:
    """Return whether it has libNVVM, and is not known to be newer than the newest CUDA that the driver serves."""
    version = toolkit_version(folder)
    too_new = newest is not None and version is not None and version > newest
    return any(folder.glob(LIBNVVM)) and not too_new


def _served() -> Version | None:
    """Return the newest CUDA that the driver serves; None without a driver."""
    try:
        return Driver().cuda_version()
    except (NoDriver, CudaError):
        return None
