"""Checks of devices, frameworks and machine settings that affect measurements."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from accelbench.doctor.check import Check
from accelbench.environment.session_limits import time_limits
from accelbench.profiling.devices import DeviceKind, DeviceMissing, device_kind, kinds
from accelbench.profiling.devices.nvidia import KEEP_LOADED
from accelbench.profiling.machine.environment import cpu, limits, memory, software, system
from accelbench.profiling.machine.environment.files import format_cpu_list, read_text
from accelbench.profiling.machine.environment.gpu import collect_gpus
from accelbench.profiling.machine.environment.settings import THREADS, collect_variables
from accelbench.profiling.machine.nvidia.libcuda import CudaError, Driver, NoDriver
from accelbench.profiling.text import format_bytes

FRAMEWORKS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-tpu"),
    "jax": ("jax",),
    "torch": ("torch",),
}
"""Distributions that provide each backend; one is enough."""

BUSY_CPUS = 0.25  # load average of an idle desktop
SHARED_MEMORY_BYTES = 1 << 30  # for data loaders and NCCL; the default of Docker is 64 MiB
SWAPPED_SHARE = 0.01  # permitted share of memory in swap


def check_devices(root: Path) -> Iterator[Check]:
    for device in kinds():
        try:
            device_kind(device, root).require(root)
        except DeviceMissing as missing:
            yield Check(f"device {device}", "missing", missing.found, missing.advice)
        else:
            yield Check(f"device {device}", "ok", "usable")


def check_cards() -> Iterator[Check]:
    """Check persistence mode, without which each run starts with low clocks, and list MPS servers."""
    try:
        gpus = collect_gpus(Driver())
    except (NoDriver, CudaError):
        return  # reported by the check of the device
    for gpu in gpus:
        if gpu.persistence is not None:
            state, advice = ("on", "") if gpu.persistence else ("off", KEEP_LOADED)
            yield Check(f"gpu {gpu.index} persistence mode", "ok" if gpu.persistence else "warn", state, advice)
        if gpu.mps:
            yield Check(f"gpu {gpu.index} MPS server", "ok", "running: its clients share the GPU")


def check_frameworks(root: Path) -> Iterator[Check]:
    kind = _accelerator(root)
    for backend, distributions in FRAMEWORKS.items():
        versions = [f"{name} {found}" for name in distributions if (found := software.installed_version(name))]
        if versions:
            yield Check(f"backend {backend}", "ok", ", ".join(versions))
        else:
            yield Check(f"backend {backend}", "missing", "not installed", kind.framework_install(backend))


def _accelerator(root: Path) -> DeviceKind:
    """Return the accelerator of this machine, or its CPU if there is none."""
    for device in kinds():
        if device != "cpu":
            kind = device_kind(device, root)
            try:
                kind.find(root)
            except DeviceMissing:
                continue
            return kind
    return device_kind("cpu")


def check_governor(root: Path) -> Check | None:
    governor = cpu.collect_governor(root)
    if governor is None:
        return None
    fast = governor == "performance"
    return Check(
        "CPU governor", "ok" if fast else "warn", governor, "" if fast else "sudo cpupower frequency-set -g performance"
    )


def check_quota(root: Path) -> Check:
    quota = limits.collect_cpu_quota(root)
    if quota is None:
        return Check("CPU quota", "ok", "none")
    cost = "threads are stopped when the quota of a period is used up, so measurements are noisy"
    return Check("CPU quota", "warn", f"{quota:g} CPUs", _limit_advice("cpu", root), cost)


def check_memory_limit(root: Path) -> Check | None:
    limit, total = limits.collect_memory_limit(root), memory.collect_memory(root).total_bytes
    if limit is None or limit >= total:
        return Check("memory limit", "ok", f"none below the total of {format_bytes(total)}")
    found = f"{format_bytes(limit)} of {format_bytes(total)}"
    cost = "the kernel kills processes above it, such as a training run or a trace analysis (up to 2 GiB)"
    return Check("memory limit", "warn", found, _limit_advice("memory", root), cost)


def _limit_advice(what: Literal["cpu", "memory"], root: Path) -> str:
    """Return the advice to raise the limit, with the option of the container engine or scheduler."""
    flags = {
        "docker": {"cpu": "--cpus", "memory": "--memory"},
        "podman": {"cpu": "--cpus", "memory": "--memory"},
        "kubernetes": {"cpu": "resources.limits.cpu", "memory": "resources.limits.memory"},
        "slurm": {"cpu": "--cpus-per-task", "memory": "--mem"},
    }
    facts = system.collect_system(root)
    setter = next((name for name in (facts.container, facts.scheduler) if name in flags), None)
    if setter is None:
        return "find its origin: systemctl show --property=CPUQuotaPerSecUSec,MemoryMax on the session's slice"
    return f"raise or omit {flags[setter][what]} of {setter}"


def check_session() -> Check:
    """Return the time limits of a hosted notebook or a batch job."""
    limits = time_limits()
    return Check("session", "ok", f"duration: {limits.duration}; idle time: {limits.idle}")


def check_affinity(root: Path) -> Check | None:
    facts = cpu.collect_cpu(root)
    if facts.affinity is None:
        return None
    found = f"{facts.usable} of {facts.logical} CPUs ({format_cpu_list(facts.affinity)})"
    if facts.usable >= facts.logical:
        return Check("CPU affinity", "ok", found)
    everything = format_cpu_list(cpu.collect_online(root))
    advice = f"to use all CPUs: taskset -c {everything} …, docker without --cpuset-cpus, or srun --exclusive"
    return Check("CPU affinity", "warn", found, advice)


def check_threads(root: Path) -> Check:
    """Check that no thread setting is below the number of usable CPUs, which would reduce results unnoticed."""
    usable = cpu.count_usable(root)
    settings = collect_variables(THREADS)
    low = {name: value for name, value in settings.items() if value.isdigit() and int(value) < usable}
    if not low:
        return Check("thread settings", "ok", f"none below the {usable} usable CPUs")
    found = ", ".join(f"{name}={value}" for name, value in low.items())
    return Check("thread settings", "warn", f"{found}, with {usable} usable CPUs", f"unset {' '.join(low)}")


def check_load(root: Path) -> Check | None:
    text = read_text(root / "proc/loadavg")
    if text is None:
        return None
    load = float(text.split()[0])
    busy = load > BUSY_CPUS
    return Check(
        "load",
        "warn" if busy else "ok",
        f"{load:g} over the last minute",
        "find the processes: top -o %CPU" if busy else "",
    )


def check_huge_pages(root: Path) -> Check | None:
    mode = memory.collect_huge_pages(root)
    if mode is None:
        return None
    advice = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" if mode == "never" else ""
    return Check("transparent huge pages", "warn" if advice else "ok", mode, advice)


def check_swap(root: Path) -> Check | None:
    sizes = memory.collect_meminfo(root)
    if not {"SwapTotal", "SwapFree", "MemTotal"} <= sizes.keys():
        return None
    used = sizes["SwapTotal"] - sizes["SwapFree"]
    if used <= SWAPPED_SHARE * sizes["MemTotal"]:
        return Check("swap", "ok", "not in use" if sizes["SwapTotal"] else "none")
    return Check("swap", "warn", f"{format_bytes(used)} in use", "sudo swapoff -a && sudo swapon -a")


def check_shared_memory(root: Path) -> Check | None:
    place = root / "dev/shm"
    if not place.is_dir():
        return None
    size = shutil.disk_usage(place).total
    small = size < SHARED_MEMORY_BYTES
    return Check(
        "shared memory",
        "warn" if small else "ok",
        f"{format_bytes(size)} in /dev/shm",
        "start the container with --shm-size=1g, or --ipc=host" if small else "",
    )
