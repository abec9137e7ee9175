"""Facts about the operating system and what stands between it and the machine."""

from __future__ import annotations

import os
import platform
import shlex
from pathlib import Path

from profiling.environment.files import read_pairs, read_text
from profiling.environment.model import System

# Each engine leaves a marker in its containers; inner ones first: Kubernetes pods are made by Docker or containerd.
CONTAINER_VARIABLES = {
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "singularity",
    "KUBERNETES_SERVICE_HOST": "kubernetes",
}
CONTAINER_FILES = {
    ".singularity.d": "apptainer",
    "var/run/secrets/kubernetes.io": "kubernetes",
    "run/.containerenv": "podman",
    ".dockerenv": "docker",
}
CONTAINER_GROUPS = {"kubepods": "kubernetes", "libpod": "podman", "docker": "docker", "lxc": "lxc", "garden": "garden"}
CONTAINER_NAMES = ("podman", "docker", "lxc", "oci", "systemd-nspawn", "flatpak")
"""The values of the variable `container` (systemd's container interface) that are recorded."""

RUNTIME_VARIABLES = {"COLAB_RELEASE_TAG": "colab", "COLAB_GPU": "colab", "KAGGLE_KERNEL_RUN_TYPE": "kaggle"}
# gVisor answers with this build date whatever the kernel below it; newer ones also say its name.
RUNTIME_KERNELS = {"gvisor": "gvisor", "sun jan 10 15:06:54 pst 2016": "gvisor", "microsoft": "wsl"}

SCHEDULER_VARIABLES = {"SLURM_JOB_ID": "slurm", "PBS_JOBID": "pbs", "LSB_JOBID": "lsf", "FLUX_JOB_ID": "flux"}


def collect_system(root: Path = Path("/")) -> System:
    """Everything known about the operating system."""
    return System(
        os=collect_os(root),
        kernel=read_text(root / "proc/sys/kernel/osrelease") or platform.release(),
        container=collect_container(root),
        scheduler=_first_set(SCHEDULER_VARIABLES),
        runtime=collect_runtime(root),
        clock_source=read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )


def collect_os(root: Path = Path("/")) -> str:
    """The distribution's own name (os-release(5)), or the platform's where it has none."""
    release = read_pairs(root / "etc/os-release", "=") or read_pairs(root / "usr/lib/os-release", "=")
    return " ".join(shlex.split(release.get("PRETTY_NAME", ""))) or platform.system()


def collect_container(root: Path = Path("/")) -> str | None:
    """The engine whose container this process is in, or None where no marker of one was seen."""
    by_file = next((engine for name, engine in CONTAINER_FILES.items() if (root / name).exists()), None)
    return _first_set(CONTAINER_VARIABLES) or by_file or _stated_container() or _container_by_group(root)


def _stated_container() -> str | None:
    stated = os.environ.get("container")  # noqa: SIM112 - the interface writes it in small letters
    return stated if stated in CONTAINER_NAMES else None


def _container_by_group(root: Path) -> str | None:
    paths = read_text(root / "proc/self/cgroup") or ""
    return next((engine for word, engine in CONTAINER_GROUPS.items() if f"/{word}" in paths), None)


def collect_runtime(root: Path = Path("/")) -> str | None:
    """The hosted notebook or the kernel's stand-in that the process runs on, or None."""
    version = (read_text(root / "proc/version") or "").lower()
    by_kernel = next((runtime for word, runtime in RUNTIME_KERNELS.items() if word in version), None)
    return _first_set(RUNTIME_VARIABLES) or by_kernel


def _first_set(variables: dict[str, str]) -> str | None:
    return next((meaning for name, meaning in variables.items() if os.environ.get(name)), None)
