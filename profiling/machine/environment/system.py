"""Facts about the operating system, container, scheduler, runtime and permissions of this process."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path

from accelbench.profiling.machine.environment.container import (
    collect_container,
    collect_image,
    first_set,
    hosted_notebook,
)
from accelbench.profiling.machine.environment.files import read_pairs, read_text
from accelbench.profiling.records.environment import System

# gVisor reports this build date on any kernel; newer versions also report their name.
RUNTIME_KERNELS = {"gvisor": "gvisor", "sun jan 10 15:06:54 pst 2016": "gvisor", "microsoft": "wsl"}

SCHEDULER_VARIABLES = {"SLURM_JOB_ID": "slurm", "PBS_JOBID": "pbs", "LSB_JOBID": "lsf", "FLUX_JOB_ID": "flux"}

# Bits of CapEff in /proc/self/status, capabilities(7).
CAP_SYS_PTRACE, CAP_SYS_ADMIN = 19, 21
WHOLE_RANGE = ["0", "0", "4294967295"]
"""Content of `/proc/self/uid_map` without a user mapping: identity of all uids (user_namespaces(7))."""


def collect_system(root: Path = Path("/")) -> System:
    """Return all system facts."""
    return System(
        os=collect_os(root),
        kernel=read_text(root / "proc/sys/kernel/osrelease") or platform.release(),
        container=collect_container(root),
        image=collect_image(),
        user_namespace=collect_user_namespace(root),
        gpu_counters=collect_gpu_counters(root),
        scheduler=first_set(SCHEDULER_VARIABLES),
        runtime=collect_runtime(root),
        clock_source=read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )


def collect_os(root: Path = Path("/")) -> str:
    """Return the distribution's name (os-release(5)), else the platform's."""
    release = read_pairs(root / "etc/os-release", "=") or read_pairs(root / "usr/lib/os-release", "=")
    return " ".join(shlex.split(release.get("PRETTY_NAME", ""))) or platform.system()


def collect_runtime(root: Path = Path("/")) -> str | None:
    """Return the hosted notebook or the emulated kernel (gVisor, WSL) on which the process runs; None if neither."""
    version = (read_text(root / "proc/version") or "").lower()
    by_kernel = next((runtime for word, runtime in RUNTIME_KERNELS.items() if word in version), None)
    return hosted_notebook() or by_kernel


def collect_user_namespace(root: Path = Path("/")) -> bool | None:
    """Return whether user ids are mapped to other ids of the host, as in rootless containers."""
    mapping = read_text(root / "proc/self/uid_map")
    return None if not mapping else mapping.split() != WHOLE_RANGE


def collect_gpu_counters(root: Path = Path("/")) -> bool | None:
    """Return whether the process may read an NVIDIA GPU's performance counters; None without NVIDIA's module."""
    restricted = read_pairs(root / "proc/driver/nvidia/params", ":").get("RmProfilingAdminOnly")
    return None if restricted is None else restricted == "0" or has_capability(root, CAP_SYS_ADMIN)


def has_capability(root: Path, bit: int) -> bool:
    mask = read_pairs(root / "proc/self/status", ":").get("CapEff", "0")
    return bool(int(mask, 16) >> bit & 1)
