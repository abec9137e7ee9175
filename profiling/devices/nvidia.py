"""NVIDIA's GPUs, which users call `gpu`: the driver's own library finds them, NVBench times them, NVML reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelbench.profiling.devices import CardSensors, DeviceMissing, GpuBackend
from accelbench.profiling.machine.environment import GpuFacts
from accelbench.profiling.machine.environment.container import collect_container
from accelbench.profiling.machine.environment.files import has_pci_device, read_text
from accelbench.profiling.machine.nvidia import libcuda
from accelbench.profiling.machine.nvidia.libcuda import CudaError, Driver, NoDriver
from accelbench.profiling.machine.packages import PackageSet, install_extra, install_framework

if TYPE_CHECKING:
    from accelbench.profiling.benchmark import Task
    from accelbench.profiling.records.timing import Timing

OLDEST_CUDA = (12, 0)

NODES = ("nvidia[0-9]*", "nvidiactl", "dxg", "nvhost-gpu", "nvgpu/*")  # PCI cards; WSL; Jetson
PCI_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # PCI class codes: VGA controller, 3D controller

SLURM_ADVICE = "ask Slurm for a GPU: --gres=gpu:1"
SLURM_VARIABLES = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
KEEP_LOADED = "sudo nvidia-smi -pm 1"
"""The command that keeps the driver loaded while no process uses the GPU."""
GIVE_DRIVER = "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
"""The option that gives a container the driver's libraries."""
ALLOW_COUNTERS = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
"""The line in /etc/modprobe.d that lets every user read performance counters."""
CUDA_ADVICE = {
    "CUDA_ERROR_STUB_LIBRARY": "that is the toolkit's stub: take its folder out of LD_LIBRARY_PATH",
    "CUDA_ERROR_SYSTEM_NOT_READY": "start the fabric manager: sudo systemctl start nvidia-fabricmanager",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the kernel module and libcuda.so.1 are of different versions: reboot",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "take the cuda-compat library out of LD_LIBRARY_PATH",
    "CUDA_ERROR_UNKNOWN": "load the module: sudo modprobe nvidia_uvm",
}


class Nvidia(GpuBackend):
    """The GPUs that a CUDA program started here would see."""

    vendor = "nvidia"
    libraries = {"cupy": ("cupy",), "numba.cuda": ("numba.cuda", "numba_cuda"), "cuda.bench": ("cuda.bench",)}
    package_patterns = ("nvidia-*", "cuda-*", "cupy-cuda*", "numba-cuda*", "triton")
    setting_patterns = ("CUDA_*", "NVIDIA_*", "*_CUDA_*", "*CUDNN*", "*_GPU_*")
    container_options = {
        "docker": ("--gpus", "all"),
        "podman": ("--device", "nvidia.com/gpu=all"),
        "apptainer": ("--nv",),
    }
    container_flags = {
        "docker": "start the container with --gpus all (the host needs the NVIDIA Container Toolkit)",
        "podman": "start the container with --device nvidia.com/gpu=all (the host needs NVIDIA's CDI specification)",
        "apptainer": "start the container with --nv",
        "singularity": "start the container with --nv",
        "kubernetes": "ask for one in the pod: resources.limits nvidia.com/gpu: 1",
        "lxc": "give the container the host's /dev/nvidia* (nvidia.runtime=true)",
    }
    sensor_interval_s = 0.2  # NVBench measures a kernel for a second; NVML refreshes its figures some ten times in one
    forkable = True  # libcuda that is merely loaded can be initialised after a fork
    card_per_rank = True

    def find(self, root: Path = Path("/")) -> str:
        """Return the first GPU's name and the newest CUDA that its driver serves."""
        name, (major, minor) = self._first_card(root)
        return f"{name} is here (driver for CUDA {major}.{minor})"

    def facts(self) -> GpuFacts:
        """Return what driver and NVML show of the cards."""
        from accelbench.profiling.machine.environment.gpu import collect_nvidia

        return collect_nvidia()

    def framework_install(self, framework: str) -> str:
        """Return the command that installs a backend's framework, for CUDA 12 where there is no GPU."""
        try:
            return super().framework_install(framework)
        except DeviceMissing:
            return install_framework(framework, "gpu")

    def libraries_install(self, root: Path = Path("/")) -> str:
        """Return what installs the set of packages that suits the driver; of both sets where there is no GPU."""
        try:
            extra: PackageSet = self.packages(root)
        except DeviceMissing:
            return f"{install_extra('gpu')} (CUDA 12) or {install_extra('gpu13')} (CUDA 13)"
        install = "make install DEVICE=gpu" if extra == "gpu" else f"make install DEVICE=gpu SET={extra}"
        return f"{install}, or {install_extra(extra)}"

    def packages(self, root: Path = Path("/")) -> PackageSet:
        """Return the name of the set of packages that suits the driver; raise `DeviceMissing` without a GPU."""
        return "gpu13" if self._first_card(root)[1] >= (13, 0) else "gpu"

    def _first_card(self, root: Path) -> tuple[str, tuple[int, int]]:
        """Return the first GPU's name, and the newest CUDA that its driver serves."""
        try:
            driver = Driver()
        except NoDriver as error:
            raise self._no_library(root, str(error)) from None
        try:
            version, devices = driver.cuda_version(), driver.devices()
        except CudaError as error:
            raise self._no_device(root, str(error), error.name) from None
        if not devices:
            raise self._no_device(root, "cuDeviceGetCount answered 0 devices", "CUDA_ERROR_NO_DEVICE")
        name, (major, minor) = devices[0].name, version
        if version < OLDEST_CUDA:
            found = f"no usable GPU: {name} is here, but its driver serves CUDA {major}.{minor} at most"
            raise DeviceMissing(found, "install driver 525 or newer, which serves CUDA 12")
        return name, version

    def _no_library(self, root: Path, loader_message: str) -> DeviceMissing:
        """Return the refusal where no libcuda loads: there is no driver, or it was not given to this container."""
        nodes, module, engine = _nodes(root), _kernel_driver(root), collect_container(root)
        card = has_pci_device(root, PCI_VENDOR, classes=DISPLAY_CLASSES)
        present = [
            *([f"the kernel driver {module} in /proc/driver/nvidia"] if module else []),
            *([f"/dev/{nodes[0].name}"] if nodes else []),
            *(["an NVIDIA card on the PCI bus"] if card else []),
        ]
        if "No such file" not in loader_message:
            present.insert(0, f"a {libcuda.LIBCUDA} that does not load ({loader_message})")
        found = (
            f"looked for the driver's {libcuda.LIBCUDA}, /dev/nvidia* and /proc/driver/nvidia, "
            f"found {' and '.join(present) or 'none of them'}"
        )
        if engine and nodes:
            advice = "give the container the driver's libraries too: NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        elif engine:
            advice = self.container_advice(engine)
        elif _slurm_gave_none():
            advice = SLURM_ADVICE
        elif module or nodes:
            advice = "install the driver's user library, or add its folder to LD_LIBRARY_PATH (Debian: libcuda1)"
        elif card:
            advice = "install the NVIDIA driver, 525 or newer"
        else:
            advice = "use DEVICE=cpu (--device cpu), or install an NVIDIA card and its driver"
        return self.absent(engine, found, advice)

    def _no_device(self, root: Path, answer: str, error_name: str) -> DeviceMissing:
        """Return the refusal where the driver's library loads and reaches no device."""
        nodes, engine = _nodes(root), collect_container(root)
        cards = [node.name for node in nodes if node.name[-1].isdigit()]
        seen = f"found {', '.join(f'/dev/{card}' for card in cards)}" if cards else "found no /dev/nvidia*"
        closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None and cards and error_name == "CUDA_ERROR_NO_DEVICE":
            advice = f"CUDA_VISIBLE_DEVICES={visible!r} hides every card: unset it, or name one that is here"
        elif engine and not nodes:
            advice = self.container_advice(engine)
        elif _slurm_gave_none():
            advice = SLURM_ADVICE
        elif closed:
            advice = f"this user may not open /dev/{closed[0].name}: join the group that owns it"
        else:
            advice = CUDA_ADVICE.get(error_name, "see whether nvidia-smi lists the card, and dmesg if it does not")
        return self.absent(engine, f"the driver's library is here, but {answer}; {seen}", advice)

    def synchronize(self) -> None:
        """Wait until the device has done all its work; RuntimeError if any of it failed."""
        from accelbench.profiling.machine.nvidia.cuda import synchronize

        synchronize()

    def timer(self, task: Task) -> tuple[Callable[[], object], Callable[[float], Timing]]:
        """Return how to run the task, and how to time it: by NVBench, unless the task asks for the host clock."""
        if task.timer == "host":
            return super().timer(task)
        from accelbench.profiling.machine.nvidia.nvbench import time_nvbench

        def run_and_wait() -> None:
            task.run(0)
            self.synchronize()

        return run_and_wait, partial(time_nvbench, task.run)

    def cards(self, count: int) -> list[str]:
        """Return PCI addresses; CUDA itself reads `CUDA_VISIBLE_DEVICES`, in each of its forms."""
        try:
            return [device.pci_bus_id for device in Driver().devices()[:count]]
        except (NoDriver, CudaError):
            return []

    def open_sensors(self, cards: list[str], missing: list[str]) -> CardSensors:
        """Open NVML's sensors of the cards."""
        from accelbench.profiling.machine.nvidia.nvml import Cards

        return Cards(cards, missing)

    def free_memory(self) -> int:
        """Return the bytes of device memory that are free now."""
        from accelbench.profiling.machine.nvidia.cuda import free_memory

        return free_memory()

    def hold_memory(self, size: int) -> Any:
        """Allocate that many bytes of device memory, which stay allocated until the process ends."""
        from accelbench.profiling.machine.nvidia.cuda import call

        return call("cudaMalloc", size)

    def attribute(self, name: str) -> int:
        """Return a device attribute by its name without the prefix `cudaDevAttr`."""
        from accelbench.profiling.machine.nvidia.cuda import attribute

        return attribute(name)

    def missing_from_trace(self) -> str:
        """Return that CUPTI shows no kernel, and what allows it to."""
        return (
            "the GPU's kernels are missing from the trace: CUPTI may not read them here. Allow it: in a container add "
            "`--cap-add=SYS_ADMIN` (or `--privileged`); on the host load the driver with "
            f"`{ALLOW_COUNTERS}` in /etc/modprobe.d, or run as root; and see that "
            "libcupti.so can be loaded (LD_LIBRARY_PATH, extras/CUPTI/lib64 of the CUDA toolkit)"
        )


def _nodes(root: Path) -> list[Path]:
    """Return the device files through which a GPU is reached."""
    return sorted(node for pattern in NODES for node in (root / "dev").glob(pattern))


def _kernel_driver(root: Path) -> str | None:
    """Return the version of the loaded kernel module, as in `NVRM version: … Kernel Module  580.95.05  …`."""
    line, _, _ = (read_text(root / "proc/driver/nvidia/version") or "").partition("\n")
    version = next((word for word in line.split() if word[0].isdigit() and "." in word), "of unknown version")
    return version if line else None


def _slurm_gave_none() -> bool:
    """Tell whether this is a job of Slurm's that was given no GPU."""
    return "SLURM_JOB_ID" in os.environ and not any(name in os.environ for name in SLURM_VARIABLES)
