"""What this machine has, what stands in the way of good measurements, and the command or flag that mends it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs

from profiling.devices import DeviceMissing, find_device
from profiling.environment import container, cpu, limits, memory, software, system
from profiling.environment.files import format_cpu_list, read_int, read_pairs, read_text
from profiling.environment.gpu import collect_gpus
from profiling.libcuda import LIBCUDA, CudaError, Driver, NoDriver

if TYPE_CHECKING:
    from rich.console import Console

    from profiling.environment.model import Environment

Status = Literal["ok", "warn", "missing"]

FRAMEWORKS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-tpu"),
    "jax": ("jax",),
    "torch": ("torch",),
}
"""The distributions that bring each backend, any one of which will do."""
INSTALL = {
    "tensorflow": "make install, or pip install 'accelbench[cpu]' ('accelbench[gpu]' for a GPU)",
    "jax": "pip install 'accelbench[jax]'",
    "torch": "pip install 'accelbench[torch]'",
}

BUSY_CPUS = 0.25  # an idle desktop's load average stays below this
SHARED_MEMORY_BYTES = 1 << 30  # data loaders and NCCL exchange batches there; Docker gives 64 MiB
SWAPPED_SHARE = 0.01  # of the memory
USER_PERF = 2  # the highest kernel.perf_event_paranoid that lets a user count his own instructions (perf_event_open(2))

# Bits of CapEff in /proc/self/status, capabilities(7).
CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON = 19, 21, 38


@dataclass(frozen=True)
class Check:
    """One thing looked at: how it is, and what to do about it (empty where nothing needs to be done)."""

    name: str
    status: Status
    found: str
    advice: str = ""


def checks(root: Path = Path("/"), libcuda: str = LIBCUDA) -> list[Check]:
    """Look at everything that applies to this machine; `root` is where `/proc`, `/sys` and `/dev` are."""
    one_each: tuple[Callable[[Path], Check | None], ...] = (
        *(check_governor, check_quota, check_affinity, check_threads, check_load),
        *(check_memory_limit, check_huge_pages, check_swap, check_shared_memory),
        *(check_py_spy, check_perf_events, check_gpu_counters),
    )
    found = [check(root) for check in one_each]
    places = [check_home(), check_cache(), check_temporary()]
    return [
        *check_devices(root, libcuda),
        *check_persistence(libcuda),
        *check_frameworks(),
        *(check for check in found if check),
        *places,
    ]


def check_devices(root: Path, libcuda: str) -> Iterator[Check]:
    for device in ("cpu", "gpu", "tpu"):
        try:
            find_device(device, root, libcuda)
        except DeviceMissing as missing:
            yield Check(f"device {device}", "missing", missing.found, missing.advice)
        else:
            yield Check(f"device {device}", "ok", "can be used")


def check_persistence(libcuda: str) -> Iterator[Check]:
    """Without it the driver unloads between processes, and each run begins with seconds of start-up and cold clocks."""
    try:
        gpus = collect_gpus(Driver(libcuda))
    except (NoDriver, CudaError):
        return  # the check of the device has said so
    for gpu in gpus:
        if gpu.persistence is not None:
            state, advice = ("on", "") if gpu.persistence else ("off", "sudo nvidia-smi -pm 1")
            yield Check(f"gpu {gpu.index} persistence mode", "ok" if gpu.persistence else "warn", state, advice)


def check_frameworks() -> Iterator[Check]:
    for backend, distributions in FRAMEWORKS.items():
        versions = [f"{name} {found}" for name in distributions if (found := software.installed_version(name))]
        if versions:
            yield Check(f"backend {backend}", "ok", ", ".join(versions))
        else:
            yield Check(f"backend {backend}", "missing", "not installed", INSTALL[backend])


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
    return Check("CPU quota", "warn", f"{quota:g} CPUs' worth of time", _limit_advice("cpu", root))


def check_memory_limit(root: Path) -> Check | None:
    limit, total = limits.collect_memory_limit(root), memory.collect_memory(root).total_bytes
    if limit is None or limit >= total:
        return Check("memory limit", "ok", f"none below the {total / 2**30:.1f} GiB of the machine")
    found = f"{limit / 2**30:.1f} of {total / 2**30:.1f} GiB"
    return Check("memory limit", "warn", found, _limit_advice("memory", root))


def _limit_advice(what: Literal["cpu", "memory"], root: Path) -> str:
    """The flag that set the limit, by whoever set it."""
    flags = {
        "docker": {"cpu": "--cpus", "memory": "--memory"},
        "podman": {"cpu": "--cpus", "memory": "--memory"},
        "kubernetes": {"cpu": "resources.limits.cpu", "memory": "resources.limits.memory"},
        "slurm": {"cpu": "--cpus-per-task", "memory": "--mem"},
    }
    facts = system.collect_system(root)
    setter = next((name for name in (facts.container, facts.scheduler) if name in flags), None)
    if setter is None:
        return "systemctl show --property=CPUQuotaPerSecUSec,MemoryMax on the session's slice tells who set it"
    return f"raise {setter}'s {flags[setter][what]}, or leave it out"


def check_affinity(root: Path) -> Check | None:
    facts = cpu.collect_cpu(root)
    if facts.affinity is None:
        return None
    found = f"{facts.usable} of {facts.logical} CPUs ({format_cpu_list(facts.affinity)})"
    if facts.usable >= facts.logical:
        return Check("CPU affinity", "ok", found)
    advice = f"for the whole machine: taskset -c 0-{facts.logical - 1} …, docker without --cpuset-cpus, or --exclusive"
    return Check("CPU affinity", "warn", found, advice)


def check_threads(root: Path) -> Check:
    """A thread setting below the CPUs that may be used halves a figure without a trace elsewhere."""
    usable = len(cpu.collect_affinity() or cpu.collect_online(root))
    settings = software.collect_variables(software.THREADS)
    low = {name: value for name, value in settings.items() if value.isdigit() and int(value) < usable}
    if not low:
        return Check("thread settings", "ok", f"nothing below the {usable} usable CPUs")
    found = ", ".join(f"{name}={value}" for name, value in low.items())
    return Check("thread settings", "warn", f"{found}, with {usable} usable CPUs", f"unset {' '.join(low)}")


def check_load(root: Path) -> Check | None:
    text = read_text(root / "proc/loadavg")
    if text is None:
        return None
    load = float(text.split()[0])
    busy = load > BUSY_CPUS
    return Check(
        "load", "warn" if busy else "ok", f"{load:g} over the last minute", "top -o %CPU tells by whom" if busy else ""
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
    return Check("swap", "warn", f"{used / 2**20:.0f} MiB in use", "sudo swapoff -a && sudo swapon -a")


def check_shared_memory(root: Path) -> Check | None:
    place = root / "dev/shm"
    if not place.is_dir():
        return None
    size = shutil.disk_usage(place).total
    small = size < SHARED_MEMORY_BYTES
    return Check(
        "shared memory",
        "warn" if small else "ok",
        f"{size / 2**20:.0f} MiB in /dev/shm",
        "start the container with --shm-size=1g, or --ipc=host" if small else "",
    )


def check_py_spy(root: Path) -> Check:
    """Whether py-spy may attach to a worker that it did not start (Yama's ptrace_scope)."""
    if software.installed_version("py-spy") is None:
        return Check("py-spy", "missing", "not installed", "pip install py-spy")
    scope = read_int(root / "proc/sys/kernel/yama/ptrace_scope")
    if not scope or _has_capability(root, CAP_SYS_PTRACE):
        return Check("py-spy", "ok", "may attach to this user's processes")
    advice = (
        "start the container with --cap-add SYS_PTRACE"
        if container.collect_container(root)
        else "sudo sysctl kernel.yama.ptrace_scope=0"
        if scope < 3
        else "boot anew with kernel.yama.ptrace_scope=0: 3 cannot be taken back"
    )
    return Check("py-spy", "warn", f"may not attach to a running process: ptrace_scope is {scope}", advice)


def check_perf_events(root: Path) -> Check | None:
    level = read_int(root / "proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return None
    if level <= USER_PERF or _has_capability(root, CAP_PERFMON) or _has_capability(root, CAP_SYS_ADMIN):
        return Check("perf events", "ok", f"allowed: perf_event_paranoid is {level}")
    advice = f"sudo sysctl kernel.perf_event_paranoid={USER_PERF}"
    return Check("perf events", "warn", f"refused: perf_event_paranoid is {level}", advice)


def check_gpu_counters(root: Path) -> Check | None:
    """Without them CUPTI answers CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, and a GPU's trace lacks its metrics."""
    restricted = read_pairs(root / "proc/driver/nvidia/params", ":").get("RmProfilingAdminOnly")
    if restricted is None:
        return None
    if restricted == "0" or _has_capability(root, CAP_SYS_ADMIN):
        return Check("GPU performance counters", "ok", "allowed")
    on_host = "on the host: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot"
    advice = (
        f"start the container with --cap-add SYS_ADMIN, or {on_host}" if container.collect_container(root) else on_host
    )
    return Check("GPU performance counters", "warn", "for administrators only", advice)


def _has_capability(root: Path, bit: int) -> bool:
    mask = read_pairs(root / "proc/self/status", ":").get("CapEff", "0")
    return bool(int(mask, 16) >> bit & 1)


def check_home() -> Check:
    home = os.path.expanduser("~")
    if home == "~" or not Path(home).is_dir():
        return Check("home directory", "missing", "there is none", "export HOME=$(mktemp -d)")
    return _writable("home directory", Path(home), "export HOME=$(mktemp -d)")


def check_cache() -> Check:
    return _writable("cache directory", platformdirs.user_cache_path("accelbench"), "export XDG_CACHE_HOME=DIRECTORY")


def check_temporary() -> Check:
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        return Check("temporary directory", "missing", "no folder can be written", "export TMPDIR=DIRECTORY")
    return _writable("temporary directory", Path(place), "export TMPDIR=DIRECTORY")


def _writable(name: str, place: Path, advice: str) -> Check:
    """Whether the folder can be written, or be made where it is not there yet."""
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check(name, "ok", f"{place} can be {'written' if there == place else 'made'}")
    return Check(name, "warn", f"{place} cannot be written", advice)


def render_doctor(environment: Environment, checks: list[Check], console: Console) -> None:
    """Print the machine, the checks with their remedies, and what could not be known."""
    from rich.table import Table
    from rich.text import Text

    for name, fact in describe(environment):
        console.print(Text.assemble((f"{name:9}", "bold"), fact))
    console.print()
    colours = {"ok": "green", "warn": "yellow", "missing": "red"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "looked at", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        # Text, not markup: 'accelbench[gpu]' is no style.
        status = Text(check.status, style=colours[check.status])
        table.add_row(status, Text(check.name), Text(check.found), Text(check.advice))
    console.print(table)
    if environment.unknown:
        console.print()
        for fact, reason in environment.unknown.items():
            console.print(Text(f"unknown: {fact}: {reason}", style="dim"))


def describe(environment: Environment) -> Iterator[tuple[str, str]]:
    """The machine in a few lines: name and fact."""
    processor, main_memory, software_facts = environment.cpu, environment.memory, environment.software
    sockets = f"{processor.sockets} × " if processor.sockets and processor.sockets > 1 else ""
    cores = f"{processor.cores} cores, " if processor.cores else ""
    yield "CPU", f"{sockets}{processor.model or processor.architecture}, {cores}{processor.logical} logical CPUs"
    yield "", " ".join(processor.isa)
    for cache in processor.caches:
        if cache.kind != "Instruction":
            yield "", f"L{cache.level} {cache.size_bytes // 1024} KiB for {cache.shared_by} logical CPUs"
    yield (
        "memory",
        f"{main_memory.total_bytes / 2**30:.1f} GiB, {main_memory.available_bytes / 2**30:.1f} GiB available",
    )
    around = [environment.system.container, environment.system.scheduler, environment.system.runtime]
    yield "system", ", ".join(filter(None, [environment.system.os, f"kernel {environment.system.kernel}", *around]))
    for gpu in environment.gpus:
        size = f", {gpu.memory_bytes / 2**30:.0f} GiB" if gpu.memory_bytes else ""
        yield "GPU", f"{gpu.index}: {gpu.name}{size}, compute capability {gpu.compute_capability}"
    if environment.cuda:
        yield (
            "CUDA",
            f"driver {environment.cuda.driver or 'of unknown version'}, serves CUDA {environment.cuda.driver_cuda}",
        )
    libraries = ", ".join(f"{name} {version}" for name, version in software_facts.libraries.items())
    yield "software", f"Python {software_facts.python}, {libraries}"
    yield "BLAS", software_facts.blas or "unknown"
