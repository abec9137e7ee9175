"""Facts about libraries and the settings that affect their speed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

from accelbench.profiling import PROJECT
from accelbench.profiling.child import child_environment
from accelbench.profiling.machine.environment import PACKAGES
from accelbench.profiling.machine.environment.settings import SETTINGS, THREADS, collect_variables
from accelbench.profiling.records.environment import Software

GIT_SECONDS = 5.0

LIBRARIES = (
    *("numpy", "scipy", "pandas", "pyarrow", "numba", "llvmlite", "mlxtend", "psutil", "py-spy"),
    *("keras", "tensorflow", "tensorflow-cpu", "tensorflow-tpu", "libtpu", "jax", "jaxlib", "torch", "triton"),
    *("cuda-bench", "cuda-core", "cuda-bindings", "numba-cuda", "cupy-cuda12x", "cupy-cuda13x"),
    *("nvidia-ml-py", "nvidia-nvvm"),
    *("nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "nvidia-cuda-runtime-cu12"),
    *("nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "nvidia-cuda-runtime"),
)


def collect_software() -> Software:
    """Return all software facts; imports NumPy, but no framework."""
    pools = collect_blas_pools()
    return Software(
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        libraries=collect_libraries(),
        blas=describe_blas(pools),
        threads=collect_variables(THREADS) | {pool["internal_api"]: str(pool["num_threads"]) for pool in pools},
        settings=collect_variables(SETTINGS),
        accelbench=collect_own_version(),
        revision=collect_revision(),
    )


def collect_libraries() -> dict[str, str]:
    """Return the versions of installed libraries, from their metadata."""
    return {name: found for name in (*LIBRARIES, *chain(*PACKAGES.values())) if (found := installed_version(name))}


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution without importing it; None if not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def collect_blas_pools() -> list[dict[str, Any]]:
    """Return threadpoolctl's description of the thread pools of NumPy's BLAS."""
    import numpy  # noqa: F401 - loads its BLAS
    from threadpoolctl import threadpool_info

    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def describe_blas(pools: list[dict[str, Any]]) -> str | None:
    """Return the BLAS with version, kernel family and threading layer: `openblas 0.3.31 Haswell pthreads`."""
    keys = ("internal_api", "version", "architecture", "threading_layer")
    return ", ".join(" ".join(str(pool[key]) for key in keys if pool.get(key)) for pool in pools) or None


def collect_own_version() -> str:
    """Return accelbench's version, from the running checkout or else from the installed package."""
    project = PROJECT / "pyproject.toml"
    if project.is_file():
        found: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
        return found
    return version("accelbench")


def collect_revision(checkout: Path = PROJECT) -> str | None:
    """Return the git commit of the checkout or image, with `-dirty` if files changed; None if unknown."""
    if not (checkout / ".git").exists():
        stated = os.environ.get("ACCELBENCH_REVISION", "")
        return stated if re.fullmatch("[0-9a-f]{40}(-dirty)?", stated) else None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command,
            env=child_environment(GIT_OPTIONAL_LOCKS="0"),
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # no git, or it does not trust the folder's owner
        return None
    return done.stdout.strip()
