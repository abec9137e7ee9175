"""Trials of the GPU: each library is tested in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from accelbench.doctor.check import Check
from accelbench.profiling.child import child_environment, module_command
from accelbench.profiling.devices import DeviceMissing, GpuBackend, gpu_backend, is_installed
from accelbench.profiling.devices.nvidia import Nvidia
from accelbench.profiling.machine.nvidia.toolkit import toolkit, toolkit_version
from accelbench.profiling.machine.packages import FRAMEWORKS

LIMIT_S = 120.0
"""Time limit of a trial in seconds; importing a framework from a cold disk takes longest."""
AT_ONCE = 4
HUNG = "no result within"
# Without these, the first framework allocates most of the GPU memory, and concurrent trials fail.
SHARING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
DEVICE = "device gpu"


@dataclass(frozen=True)
class Trial:
    """Test program of one library on the GPU, which prints the versions it ran with."""

    name: str
    command: tuple[str, ...]
    modules: tuple[str, ...]
    """Modules that must all be installed."""
    install: str
    cost: str
    needed: bool = False
    """Whether GPU measurements require the library."""


TRIALS = "accelbench.doctor.gpu_trials"


def _trial(name: str, short: str, modules: tuple[str, ...], cost: str, install: str, needed: bool = False) -> Trial:
    command = tuple(module_command(TRIALS, short))
    return Trial(name, command, modules, install, cost, needed)


def gpu_trials(gpu: GpuBackend) -> tuple[Trial, ...]:
    """Return the trials of the vendor's libraries and of the frameworks."""
    install = gpu.libraries_install()
    none, no_training = "nothing can be measured on the GPU", "its training workloads cannot run on the GPU"
    of_nvidia = (
        _trial("Numba", "numba", ("numba.cuda",), none, install, needed=True),
        _trial("NVBench", "nvbench", ("cuda.bench",), none, install, needed=True),
        _trial("cuBLASLt", "cublaslt", ("cupy", "cuda.pathfinder"), "no products of 8-bit and 4-bit types", install),
    )
    return (
        *([_trial("CuPy", "cupy", ("cupy",), none, install, needed=True)] if "cupy" in gpu.libraries else []),
        *(of_nvidia if gpu.vendor == "nvidia" else ()),
        *(_trial(title, name, (name,), no_training, gpu.framework_install(name)) for name, title in FRAMEWORKS.items()),
    )


def try_gpu() -> Iterator[Check]:
    """Yield the trials of all libraries if there is a GPU."""
    gpu = gpu_backend()
    try:
        gpu.find()
        gpu.packages()
    except DeviceMissing:
        return  # reported by the check of the device
    yield from run_trials(gpu_trials(gpu))


def run_trials(trials: Sequence[Trial], limit_s: float = LIMIT_S) -> list[Check]:
    """Run the trials in parallel, and repeat failed ones serially: a GPU may be limited to one process at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        checks = list(pool.map(lambda trial: run_trial(trial, limit_s), trials))
    return [
        run_trial(trial, limit_s) if check.status == "warn" and HUNG not in check.found else check
        for trial, check in zip(trials, checks, strict=True)
    ]


def run_trial(trial: Trial, limit_s: float = LIMIT_S) -> Check:
    """Run a trial and return its outcome: versions, error, signal or timeout."""
    name = f"{trial.name} on the GPU"
    lacking = [name for name in trial.modules if not any(map(is_installed, _modules(name)))]
    if lacking:
        return Check(name, "missing", f"not installed: {', '.join(lacking)}", trial.install, trial.cost)
    process = subprocess.Popen(
        trial.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=child_environment(**SHARING),
        start_new_session=True,  # its children are ended with it
    )
    advice = f"{trial.install}; for details: python -m {TRIALS} {trial.command[-1]}"
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Check(name, "warn", f"{HUNG} {limit_s:g} s", advice, trial.cost)
    if process.returncode == 0:
        return Check(name, "ok", f"compiled and ran: {_last_line(output)}")
    if process.returncode < 0:
        return Check(name, "warn", f"ended by {signal.Signals(-process.returncode).name}", advice, trial.cost)
    found = _last_line(errors) or f"exit status {process.returncode}"
    return Check(name, "warn", found, advice, trial.cost)


def _modules(library: str) -> tuple[str, ...]:
    """Return the modules of a library, one of which must be installed."""
    return gpu_backend().libraries.get(library, (library,))


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "")


def merge_trials(checks: Sequence[Check], trials: Sequence[Check]) -> list[Check]:
    """Return all checks; the GPU device is `ok` only if all trials of required libraries passed."""
    needed = {f"{trial.name} on the GPU" for trial in gpu_trials(gpu_backend()) if trial.needed}
    failed = [trial for trial in trials if trial.name in needed and trial.status != "ok"]
    if not failed:
        return [*checks, *trials]
    found = f"cannot be used: {'; '.join(f'{trial.name}: {trial.found}' for trial in failed)}"
    unusable = Check(DEVICE, "missing", found, failed[0].advice)
    return [unusable if check.name == DEVICE and check.status == "ok" else check for check in (*checks, *trials)]


def check_toolkit(root: Path) -> Check | None:
    """Check the CUDA toolkit used by Numba; without a toolkit, Numba uses the libraries of Python packages."""
    try:
        Nvidia().find(root)
    except DeviceMissing:
        return None
    folder = toolkit(root)
    if folder is None:
        return Check("CUDA toolkit", "ok", "not found in the usual places: libraries of Python packages are used")
    version = toolkit_version(folder)
    has_nvvm = any(folder.glob("nvvm/lib64/libnvvm.so*"))
    found = f"{folder}, CUDA {'of unknown version' if version is None else '{}.{}'.format(*version)}"
    if has_nvvm:
        return Check("CUDA toolkit", "ok", f"{found}, has libNVVM")
    cost = "Numba can compile only with libNVVM from Python packages"
    advice = "unset CUDA_PATH and CUDA_HOME, or set them to a complete toolkit"
    return Check("CUDA toolkit", "warn", f"{found}, has no libNVVM", advice, cost)
