"""The checks of what profiling needs of the machine, each with what it costs to lack it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from accelbench.doctor.check import Check
from accelbench.profiling.child import child_command
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
"""The places of CUPTI in NVIDIA's wheels, below the package `nvidia`."""
CUPTI_TOOLKIT = "usr/local/cuda/extras/CUPTI/lib64"

ATTACH_S, IMPORT_S = 20, 120
"""The seconds that py-spy and TensorBoard's plug-in get: an import of TensorFlow from a cold disk takes longest."""
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
    """Check for every card that its sensors can be read."""
    for index, device in enumerate(_gpus()):
        name = f"gpu {index} NVML"
        if open_card(device.pci_bus_id) is not None:
            yield Check(name, "ok", "answers")
        else:
            advice = (
                f"start the container with {GIVE_DRIVER}"
                if container.collect_container(root)
                else "install libnvidia-ml.so.1 of the driver's own version"
            )
            yield Check(name, "warn", "does not answer", advice, "no clocks, power, energy or throttling in records")


def check_cupti(root: Path) -> Iterator[Check]:
    """Check that the library that frameworks trace a GPU with can be loaded."""
    if not _gpus():
        return
    for path in _cupti_paths(root):
        version = ctypes.c_uint32()
        try:
            ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(version))
        except (OSError, AttributeError):  # not there, not loadable, or another library of that name
            continue
        yield Check("CUPTI", "ok", f"{path}, API version {version.value}")
        return
    cost = "the trace of a training on the GPU shows no kernel"
    yield Check("CUPTI", "missing", f"{CUPTI[0]} cannot be loaded", install_extra("gpu"), cost)


def _cupti_paths(root: Path) -> Iterator[str]:
    """Yield the places of CUPTI: NVIDIA's wheels, then the toolkit, then where the loader looks."""
    wheels = find_spec("nvidia")
    sites = (wheels and wheels.submodule_search_locations) or []
    for folder in (*(Path(site, wheel) for site in sites for wheel in CUPTI_WHEELS), root / CUPTI_TOOLKIT):
        yield from (str(path) for path in sorted(folder.glob("libcupti.so*"), reverse=True))
    yield from CUPTI


def _gpus() -> list[CudaDevice]:
    try:
        return Driver().devices()
    except (NoDriver, CudaError):
        return []  # the check of the device has said so


def check_gpu_counters(root: Path) -> Check | None:
    """Check that counters may be read: else CUPTI is refused for INSUFFICIENT_PRIVILEGES, and traces lack metrics."""
    allowed = collect_gpu_counters(root)
    if allowed is None:
        return None
    if allowed:
        return Check("GPU performance counters", "ok", "allowed")
    on_host = f"{ALLOW_COUNTERS} in /etc/modprobe.d, then reboot"
    advice = _grant("SYS_ADMIN", on_host, root)
    cost = "a GPU's trace may lack its kernels, and has none of their metrics"
    return Check("GPU performance counters", "warn", "for administrators only", advice, cost)


def check_ptrace(root: Path) -> Check:
    """Check that a worker may be traced: each allows it as it starts, which is enough for Yama's ptrace_scope 1."""
    scope = read_int(root / "proc/sys/kernel/yama/ptrace_scope")
    if not scope or has_capability(root, CAP_SYS_PTRACE):
        return Check("ptrace scope", "ok", "this user's processes may be traced")
    if scope == 1:
        return Check("ptrace scope", "ok", "a process may be traced that allows it, as every worker does")
    cost = "no flame graph by --host-profile, and no stack of a worker that hangs"
    return Check("ptrace scope", "warn", f"tracing is restricted: {scope}", _ptrace_advice(root), cost)


def _ptrace_advice(root: Path) -> str:
    final = (read_int(root / "proc/sys/kernel/yama/ptrace_scope") or 0) >= 3
    on_host = "boot anew with kernel.yama.ptrace_scope=0: 3 cannot be taken back" if final else YAMA_OFF
    return _grant("SYS_PTRACE", on_host, root)


def _grant(capability: str, on_host: str, root: Path) -> str:
    """Return what grants the process that capability, or makes it needless, by who started its container, if any."""
    engine = container.collect_container(root)
    if engine in ("apptainer", "singularity"):
        return f"on the host, as {engine} grants users nothing: {on_host}"
    if engine == "kubernetes":
        return f"add {capability} to the pod's securityContext.capabilities, or on the host: {on_host}"
    return f"start the container with --cap-add {capability}, or on the host: {on_host}" if engine else on_host


def try_py_spy(root: Path = Path("/")) -> Check:
    """Attach py-spy to a process, as --host-profile does to a worker."""
    from accelbench.profiling.host.pyspy import SamplingError, find_pyspy

    cost = "--host-profile has no flame graph, a worker that hangs leaves no stack"
    try:
        program = find_pyspy()
    except SamplingError:
        return Check("py-spy", "missing", "not installed", "pip install py-spy", cost)
    with subprocess.Popen(
        child_command(f"{__package__}.traced_process"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as sleeper:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        status, said = _try([str(program), "dump", "--pid", str(sleeper.pid)], ATTACH_S)
        sleeper.kill()
    if status == 0 and str(sleeper.pid) in said:
        return Check("py-spy", "ok", "attached to a process and read its stack")
    return Check("py-spy", "warn", f"cannot attach to a process: {said}", _ptrace_advice(root), cost)


def try_plugin() -> Check:
    """Load TensorBoard, its profile plug-in and xprof together, as only some of their versions can be."""
    status, said = _try([sys.executable, "-P", "-c", PLUGIN], IMPORT_S)
    if status == 0:
        return Check("profile plug-in", "ok", f"loads: {said}")
    advice = "pip install --upgrade tensorboard tensorboard-plugin-profile xprof"
    cost = "traces are neither analysed nor shown in TensorBoard"
    missing = said.startswith("ModuleNotFoundError")
    return Check("profile plug-in", "missing" if missing else "warn", f"does not load: {said}", advice, cost)


def _try(command: list[str], limit_s: float) -> tuple[int | None, str]:
    """Run the command and return its exit status and what it printed; of a failure, the last line of its complaint."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {limit_s:g} s"
    if done.returncode == 0:
        return 0, done.stdout.strip()
    return done.returncode, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
