"""Requirements of tests beyond the development set.

A test declares a requirement by `@pytest.mark.needs("torch")`; `tests/conftest.py` skips the test if it is not met. For
requirements that fail only during a test, such as a daemon that does not start, the test calls `not_tested`.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

NEEDS, DETAIL = "needs ", ": "
"""Prefix of skip reasons, and separator between requirement and detail."""
OTHER = "for other reasons (pytest -rs)"
ENGINES_PATH = os.pathsep.join(("/usr/sbin:/usr/bin:/sbin:/bin", os.environ.get("PATH", os.defpath)))
"""PATH for container engines and Slurm. Debian's programs come first: another `docker` may not support BuildKit."""
CUDA12 = Path(sys.prefix, "cuda12", "bin", "python")
"""Interpreter of the separate environment with the compilers of CUDA 12."""
REQUIRED_IN_CI = {"chromium"}
"""Requirements without which tests fail in continuous integration instead of being skipped."""


@dataclass(frozen=True)
class Requirement:
    """A program, package or property of the machine. If only a test can check it, it counts as met before the test."""

    label: str
    is_met: Callable[[], bool] = lambda: True
    install: str = ""
    """Install command; empty for a property of the machine."""

    def __str__(self) -> str:
        return f"{self.label} ({self.install})" if self.install else self.label


def module(name: str) -> Callable[[], bool]:
    return lambda: find_spec(name) is not None


def programs(*names: str, path: str | None = None) -> Callable[[], bool]:
    return lambda: all(shutil.which(name, path=path) for name in names)


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def find_sanitizer() -> str | None:
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=f"{toolkit}/bin")


def has_cpus(number: int) -> bool:
    from accelbench.execution.affinity import usable_cores

    return usable_cores() >= number


def has_cpu_feature(name: str) -> bool:
    from accelbench.kernels.lib.cpu.simd import features

    return name in features()


def has_dot_product(dtype: str) -> bool:
    from accelbench.kernels.lib.cpu.dot_instructions import find_dot

    return find_dot(dtype, matrix=False) is not None


def has_memory_nodes() -> bool:
    from accelbench.kernels.lib.cpu.topology import read_nodes

    return bool(read_nodes())


def has_toolkit() -> bool:
    from accelbench.profiling.machine.nvidia.toolkit import toolkit

    return toolkit() is not None


def has_python(version: str) -> bool:
    from tests.fixtures.interpreters import find_python

    return find_python(version) is not None


def resolves_localhost() -> bool:
    try:
        return bool(socket.getaddrinfo("localhost", None))
    except socket.gaierror:
        return False


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def names_hosts() -> bool:
    command = ["unshare", "--uts", "hostname", "another"]
    return is_root() and subprocess.run(command, check=False, capture_output=True).returncode == 0


def has_nccl() -> bool:
    if find_spec("cupy") is None:
        return False
    from cupy.cuda import nccl

    return bool(nccl.available)


def count_gpus() -> int:
    from accelbench.profiling.machine.nvidia.libcuda import CudaError, Driver, NoDriver

    try:
        return len(Driver().devices())
    except (NoDriver, CudaError):
        return 0


ENGINES = "containers/ci/engines.sh"
REQUIREMENTS = {
    # Packages
    "tensorflow": Requirement("TensorFlow", module("tensorflow"), "pip install 'accelbench[cpu]'"),
    "torch": Requirement("PyTorch", module("torch"), "pip install 'accelbench[torch]'"),
    "triton": Requirement("Triton", module("triton"), "pip install 'accelbench[triton]'"),
    "horovod": Requirement("Horovod", module("horovod"), "HOROVOD_WITH_TENSORFLOW=1 pip install horovod"),
    "no-horovod": Requirement("an environment without Horovod", lambda: find_spec("horovod") is None),
    "cuda-12": Requirement("the compilers of CUDA 12", CUDA12.exists, "make kernels-report CUDA=12"),
    "package-index": Requirement("a package index"),
    # Programs
    "gcc": Requirement("gcc", programs("gcc"), "apt install gcc"),
    "g++": Requirement("g++", programs("g++"), "apt install g++"),
    "chromium": Requirement(
        "Chromium",
        lambda: find_chromium() is not None and shutil.which("chromedriver") is not None,
        "apt install chromium chromium-driver",
    ),
    "mpirun": Requirement("Open MPI", programs("mpirun"), "apt install openmpi-bin"),
    "netpipe": Requirement("NetPIPE", programs("NPtcp"), "apt install netpipe-tcp"),
    "iproute2": Requirement("iproute2", programs("ip", "tc"), "apt install iproute2"),
    "fio": Requirement("fio", programs("fio"), "apt install fio"),
    "likwid": Requirement("likwid", programs("likwid-bench"), "apt install likwid"),
    "qemu-arm": Requirement(
        "QEMU and a compiler for ARM",
        programs("qemu-aarch64", "aarch64-linux-gnu-gcc"),
        "apt install qemu-user gcc-aarch64-linux-gnu",
    ),
    "python3.12": Requirement("Python 3.12", partial(has_python, "3.12"), "pyenv install 3.12"),
    "python3.13": Requirement("Python 3.13", partial(has_python, "3.13"), "pyenv install 3.13"),
    "docker": Requirement("Docker", programs("dockerd", "docker", "mmdebstrap", path=ENGINES_PATH), ENGINES),
    "podman": Requirement("Podman", programs("podman", "runc", path=ENGINES_PATH), ENGINES),
    "apptainer": Requirement("Apptainer", programs("apptainer", path=ENGINES_PATH), ENGINES),
    "slurm": Requirement(
        "Slurm",
        programs("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "squeue", "srun", path=ENGINES_PATH),
        ENGINES,
    ),
    "kubectl": Requirement("kubectl", programs("kubectl"), "apt install kubernetes-client"),
    "gpu-image": Requirement(
        "the gpu image, 20 GB", lambda: "ACCELBENCH_GPU_IMAGE" in os.environ, "ACCELBENCH_GPU_IMAGE=1"
    ),
    "sanitizer": Requirement("compute-sanitizer", lambda: find_sanitizer() is not None, "NVIDIA's CUDA toolkit"),
    # Properties of the system
    "linux": Requirement("Linux", lambda: sys.platform == "linux"),
    "schedstat": Requirement("a kernel with /proc/self/schedstat", lambda: Path("/proc/self/schedstat").exists()),
    "root": Requirement("root", is_root),
    "localhost": Requirement("a machine that resolves localhost (/etc/hosts)", resolves_localhost),
    "namespaces": Requirement("network namespaces"),
    "host-names": Requirement("separate host names (unshare --uts)", names_hosts),
    "cpu-quota": Requirement("control groups with a CPU quota"),
    "no-toolkit": Requirement("a machine without a CUDA toolkit", lambda: not has_toolkit()),
    # Properties of the hardware
    "two-cpus": Requirement("two CPUs", partial(has_cpus, 2)),
    "three-cpus": Requirement("three CPUs", partial(has_cpus, 3)),
    "memory-nodes": Requirement("NUMA nodes in /sys", has_memory_nodes),
    "x86-64": Requirement("an x86-64 CPU", lambda: platform.machine() == "x86_64"),
    "no-amx": Requirement("a CPU without AMX", lambda: not has_cpu_feature("amx-tile")),
    **{
        name: Requirement(f"a CPU with {name}", partial(has_cpu_feature, name))
        for name in ("avx", "avx2", "avx512f", "avx512vbmi2", "sha")
    },
    **{
        f"dot-{dtype}": Requirement(f"a CPU with dot products of {dtype}", partial(has_dot_product, dtype))
        for dtype in ("int8", "bfloat16")
    },
    "gpu-unit": Requirement("another GPU"),
    "two-gpus": Requirement("two GPUs", lambda: count_gpus() >= 2),
    "nccl": Requirement("NCCL", has_nccl, "pip install nvidia-nccl-cu12"),
}
"""Requirements by key."""


@cache
def is_met(key: str) -> bool:
    return REQUIREMENTS[key].is_met()


BACKENDS = (
    pytest.param("tensorflow", marks=pytest.mark.needs("tensorflow")),
    "jax",
    pytest.param("torch", marks=pytest.mark.needs("torch")),
)
"""Parameters of tests on all backends; JAX is in the development set of every Python version."""


def installed_backends() -> list[str]:
    return [backend for backend in ("tensorflow", "jax", "torch") if backend == "jax" or is_met(backend)]


ANY_BACKEND = installed_backends()[0]
"""Backend of tests that need any one backend."""


def require(*keys: str) -> None:
    """Skip the test unless all of these requirements are met; raise KeyError for an unknown key."""
    missing = [key for key in dict.fromkeys(keys) if not is_met(key)]
    if not missing:
        return
    reason = NEEDS + " and ".join(str(REQUIREMENTS[key]) for key in missing)
    if os.environ.get("CI") and REQUIRED_IN_CI.intersection(missing):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def not_tested(key: str, detail: str) -> NoReturn:
    """Skip the running test because a requirement is not met, with the detail."""
    pytest.skip(f"{NEEDS}{REQUIREMENTS[key]}{DETAIL}{detail}")


def summarize(reasons: Iterable[str]) -> str:
    """Return a line with the requirements of the skipped tests, the most frequent first; empty without reasons."""
    counts: Counter[str] = Counter()
    for reason in reasons:
        text = reason.removeprefix("Skipped: ")
        counts[text.removeprefix(NEEDS).split(DETAIL)[0] if text.startswith(NEEDS) else OTHER] += 1
    if not counts:
        return ""
    (first, number), *others = counts.most_common()
    verb = first if first == OTHER else f"need{'s' if number == 1 else ''} {first}"
    return ", ".join([f"Not tested: {number} test{'s' * (number > 1)} {verb}", *(f"{n} {what}" for what, n in others)])
