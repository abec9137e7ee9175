"""Search for the CUDA toolkit, including toolkits that no environment variable names.

CUDA's Python packages look for libNVVM in wheels, in an active conda environment, in the loader's path, and in
CUDA_PATH or CUDA_HOME. The toolkit's installer sets none of these, and libNVVM is not in the loader's path.
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
"""Environment variables of a toolkit, in the order of `cuda.pathfinder`."""
LIBNVVM = "nvvm/lib64/libnvvm.so*"
Version = tuple[int, int]


def toolkit(root: Path = Path("/")) -> Path | None:
    """Return the folder in CUDA_PATH or CUDA_HOME, else of a toolkit with libNVVM that the driver supports.

    A driver cannot load PTX of a newer CUDA version than its own. `root` is the folder of `/usr/local` and `/opt`.
    """
    named = next(filter(None, map(os.environ.get, VARIABLES)), None)
    if named:
        return Path(named)
    newest = _driver_version()
    return next((folder for folder in _usual_folders(root) if _is_usable(folder, newest)), None)


def use_toolkit() -> None:
    """Set CUDA_HOME to this machine's toolkit, for this process and its children, unless a variable names one."""
    if not any(map(os.environ.get, VARIABLES)) and (folder := toolkit()):
        os.environ["CUDA_HOME"] = str(folder)


def toolkit_version(folder: Path) -> Version | None:
    """Return a toolkit's CUDA version, such as (13, 0), from its folder name or from `cuda.h`."""
    if called := re.fullmatch(r"cuda-(\d+)\.(\d+)", folder.resolve().name):
        return int(called[1]), int(called[2])
    for header in (folder / "include/cuda.h", *sorted(folder.glob("targets/*/include/cuda.h"))):
        if header.is_file():
            stated = re.search(r"#define CUDA_VERSION (\d+)", header.read_text(encoding="utf-8", errors="replace"))
            if stated:
                return int(stated[1]) // 1000, int(stated[1]) % 1000 // 10
    return None


def _usual_folders(root: Path) -> Iterator[Path]:
    """Yield `/usr/local/cuda`, versioned folders from the newest, `/opt/cuda`, and the toolkits of PATH and conda."""
    local = root / "usr/local"
    yield local / "cuda"
    yield from sorted(local.glob("cuda-[0-9]*"), key=lambda folder: toolkit_version(folder) or (0, 0), reverse=True)
    yield root / "opt/cuda"
    if compiler := shutil.which("nvcc"):
        yield Path(compiler).resolve().parents[1]
    if (conda := Path(os.environ.get("CONDA_PREFIX") or sys.prefix)).joinpath("conda-meta").is_dir():
        yield conda


def _is_usable(folder: Path, newest: Version | None) -> bool:
    """Return whether the folder has libNVVM and is not known to be newer than the driver's CUDA version."""
    version = toolkit_version(folder)
    too_new = newest is not None and version is not None and version > newest
    return any(folder.glob(LIBNVVM)) and not too_new


def _driver_version() -> Version | None:
    """Return the newest CUDA version that the driver supports; None without a driver."""
    try:
        return Driver().cuda_version()
    except (NoDriver, CudaError):
        return None
