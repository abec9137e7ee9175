"""Checks of the requirements of profiling, each with the effect of a missing one."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from accelbench.doctor.check import Check
from accelbench.profiling.child import child_command, child_environment
from accelbench.profiling.devices.nvidia import ALLOW_COUNTERS, GIVE_DRIVER
from accelbench.profiling.machine.environment import container
from accelbench.profiling.machine.environment.files import read_int
from accelbench.profiling.machine.environment.system import (
    CAP_SYS_PTRACE,
    collect_gpu_counters,
    has_capability,
)
from accelbench.profiling.machine.nvidia.libcuda import CudaDevice, CudaError, Driver, NoDriver
from accelbench.profiling.machine.nvidia.nvml import open_card
from accelbench.profiling.machine.packages import install_extra

YAMA_OFF = "sudo sysctl kernel.yama.ptrace_scope=0"

CUPTI = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")
CUPTI_WHEELS = ("cu13/lib", "cuda_cupti/lib")
"""Folders of CUPTI in NVIDIA's wheels, relative to the package `nvidia`."""
CUPTI_TOOLKIT = "usr/local/cuda/extras/CUPTI/lib64"

ATTACH_S, IMPORT_S = 20, 120
"""Time limits in seconds of py-spy and of the plug-in; importing TensorFlow from a cold disk takes longest."""
PLUGIN = """
from importlib.metadata import entry_points, version
for plugin in entry_points(group="tensorboard_plugins", name="profile"):
    plugin.load()
import tensorboard.plugins.base_plugin
import xprof.convert.raw_to_tool_data
import xprof.profile_plugin
print(*(f"{name} {version(name)}" for name in ("tensorboard", "tensorboard-plugin-profile", "xprof")), sep=", ")
"""


def check_nvml(root: Path) -> Iterator[Check]:
    """Check for each GPU that NVML can read its sensors."""
    for index, device in enumerate(_gpus()):
        name = f"gpu {index} NVML"
        if open_card(device.pci_bus_id) is not None:
            yield Check(name, "ok", "sensors readable")
        else:
            advice = (
                f"start the container with {GIVE_DRIVER}"
                if container.collect_container(root)
                else "install libnvidia-ml.so.1 of the driver's version"
            )
            yield Check(
                name, "warn", "sensors not readable", advice, "no clocks, power, energy or throttling in records"
            )


def check_cupti(root: Path) -> Iterator[Check]:
    """Check that CUPTI, which frameworks use to trace a GPU, can be loaded."""
    if not _gpus():
        return
    for path in _cupti_paths(root):
        version = ctypes.c_uint32()
        try:
            ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(version))
        except (OSError, AttributeError):  # missing, not loadable, or another library of this name
            continue
        yield Check("CUPTI", "ok", f"{path}, API version {version.value}")
        return
    cost = "traces of training workloads on the GPU contain no kernels"
    yield Check("CUPTI", "missing", f"{CUPTI[0]} cannot be loaded", install_extra("gpu"), cost)


def _cupti_paths(root: Path) -> Iterator[str]:
    """Yield the paths of CUPTI: NVIDIA's wheels, the toolkit, then the names for the loader."""
    wheels = find_spec("nvidia")
    sites = (wheels and wheels.submodule_search_locations) or []
    for folder in (*(Path(site, wheel) for site in sites for wheel in CUPTI_WHEELS), root / CUPTI_TOOLKIT):
        yield from (str(path) for path in sorted(folder.glob("libcupti.so*"), reverse=True))
    yield from CUPTI


def _gpus() -> list[CudaDevice]:
    try:
        return Driver().devices()
    except (NoDriver, CudaError):
        return []  # reported by the check of the device


def check_gpu_counters(root: Path) -> Check | None:
    """Check access to GPU counters; without it CUPTI fails with INSUFFICIENT_PRIVILEGES and traces lack metrics."""
    allowed = collect_gpu_counters(root)
    if allowed is None:
        return None
    if allowed:
        return Check("GPU performance counters", "ok", "allowed")
    on_host = f"{ALLOW_COUNTERS} in /etc/modprobe.d, then reboot"
    advice = _grant("SYS_ADMIN", on_host, root)
    cost = "GPU traces may lack kernels, and have no kernel metrics"
    return Check("GPU performance counters", "warn", "only for administrators", advice, cost)


def check_ptrace(root: Path) -> Check:
    """Check that workers may be traced; each permits it at start, which suffices for Yama's ptrace_scope 1."""
    scope = read_int(root / "proc/sys/kernel/yama/ptrace_scope")
    if not scope or has_capability(root, CAP_SYS_PTRACE):
        return Check("ptrace scope", "ok", "processes of this user may be traced")
    if scope == 1:
        return Check("ptrace scope", "ok", "processes may be traced with their permission, which workers give")
    cost = "no flame graph with --host-profile, no stack of a hung worker"
    return Check("ptrace scope", "warn", f"tracing is restricted: {scope}", _ptrace_advice(root), cost)


def _ptrace_advice(root: Path) -> str:
    final = (read_int(root / "proc/sys/kernel/yama/ptrace_scope") or 0) >= 3
    on_host = "reboot with kernel.yama.ptrace_scope=0 (3 cannot be changed at run time)" if final else YAMA_OFF
    return _grant("SYS_PTRACE", on_host, root)


def _grant(capability: str, on_host: str, root: Path) -> str:
    """Return the advice that grants the capability in this container engine, or the change on the host."""
    engine = container.collect_container(root)
    if engine in ("apptainer", "singularity"):
        return f"on the host ({engine} cannot grant it): {on_host}"
    if engine == "kubernetes":
        return f"add {capability} to the pod's securityContext.capabilities, or on the host: {on_host}"
    return f"start the container with --cap-add {capability}, or on the host: {on_host}" if engine else on_host


def try_py_spy(root: Path = Path("/")) -> Check:
    """Check that py-spy can attach to a process, as --host-profile does to a worker."""
    from accelbench.profiling.host.pyspy import SamplingError, find_pyspy

    cost = "no flame graph with --host-profile, no stack of a hung worker"
    try:
        program = find_pyspy()
    except SamplingError:
        return Check("py-spy", "missing", "not installed", "pip install py-spy", cost)
    with subprocess.Popen(
        child_command(f"{__package__}.traced_process"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
    ) as sleeper:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        status, output = _try([str(program), "dump", "--pid", str(sleeper.pid)], ATTACH_S)
        sleeper.kill()
    if status == 0 and str(sleeper.pid) in output:
        return Check("py-spy", "ok", "attached to a process and read its stack")
    return Check("py-spy", "warn", f"cannot attach to a process: {output}", _ptrace_advice(root), cost)


def try_plugin() -> Check:
    """Check that TensorBoard, its profile plug-in and xprof can be imported together; not all versions can."""
    status, output = _try([sys.executable, "-P", "-c", PLUGIN], IMPORT_S)
    if status == 0:
        return Check("profile plug-in", "ok", f"importable: {output}")
    missing = output.startswith("ModuleNotFoundError")
    upgrade = "pip install --upgrade tensorboard tensorboard-plugin-profile xprof"
    advice = install_extra("trace") if missing else upgrade
    cost = "traces are neither analyzed nor shown in TensorBoard"
    return Check("profile plug-in", "missing" if missing else "warn", f"not importable: {output}", advice, cost)


def _try(command: list[str], limit_s: float) -> tuple[int | None, str]:
    """Run the command; return its exit status (None after a timeout) and its output, or its last line of stderr."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit_s, env=child_environment()
        )
    except subprocess.TimeoutExpired:
        return None, f"no result within {limit_s:g} s"
    if done.returncode == 0:
        return 0, done.stdout.strip()
    return done.returncode, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
