"""System facts for a problem report; `python -m accelbench.gpu_day.system_facts` prints them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions

from accelbench.output.console import say
from accelbench.profiling.child import child_environment

PROGRAMS = ("nvidia-smi", "nvcc", "ptxas", "nvdisasm", "compute-sanitizer", "ncu", "py-spy", "make")
VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PYTHONPATH")
PACKAGES = (
    *("cuda-", "cupy", "jax", "keras", "llvmlite", "numba", "numpy", "nvidia-", "pydantic", "scipy"),
    *("tensorflow", "torch", "triton"),
)


def facts() -> Iterator[str]:
    """Yield one line each for the interpreter, programs, CUDA variables and package versions."""
    yield f"Python {platform.python_version()} at {sys.executable}, {os.cpu_count()} CPUs"
    for program in PROGRAMS:
        yield f"{program}: {shutil.which(program) or 'not found'}"
    for name in VARIABLES:
        yield f"{name}={os.environ[name]}" if name in os.environ else f"{name} is not set"
    installed = {each.metadata["Name"].lower(): each.version for each in distributions() if each.metadata["Name"]}
    yield "  ".join(f"{name} {version}" for name, version in sorted(installed.items()) if name.startswith(PACKAGES))


def main() -> None:
    """Print the facts, and the output of nvidia-smi if it is installed."""
    for fact in facts():
        say(fact)
    if shutil.which("nvidia-smi"):
        subprocess.run(["nvidia-smi"], stdin=subprocess.DEVNULL, check=False, timeout=30, env=child_environment())


if __name__ == "__main__":
    main()
