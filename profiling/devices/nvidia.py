"""Device backend of NVIDIA's GPUs: found by the driver library, timed by NVBench, with sensors of NVML."""

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
    from accelbench.profiling.machine.pcie import PcieLink
    from accelbench.profiling.records.timing import Timing

OLDEST_CUDA = (12, 0)

NODES = ("nvidia[0-9]*", "nvidiactl", "dxg", "nvhost-gpu", "nvgpu/*")  # PCI cards; WSL; Jetson
PCI_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # PCI class codes: VGA controller, 3D controller

SLURM_ADVICE = "request a GPU from Slurm: --gres=gpu:1"
SLURM_VARIABLES = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
KEEP_LOADED = "sudo nvidia-smi -pm 1"
"""Command that keeps the driver loaded while no process uses the GPU (persistence mode)."""
GIVE_DRIVER = "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
"""Container option that provides the driver's libraries."""
ALLOW_COUNTERS = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
"""Line in /etc/modprobe.d that permits all users to read performance counters."""
CUDA_ADVICE = {
    "CUDA_ERROR_STUB_LIBRARY": "libcuda is the toolkit's stub: remove its folder from LD_LIBRARY_PATH",
    "CUDA_ERROR_SYSTEM_NOT_READY": "start the fabric manager: sudo systemctl start nvidia-fabricmanager",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the kernel module and libcuda.so.1 have different versions: reboot",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "remove the cuda-compat library from LD_LIBRARY_PATH",
    "CUDA_ERROR_UNKNOWN": "load the module: sudo modprobe nvidia_uvm",
}


class Nvidia(GpuBackend):
    """Backend of the GPUs that are visible to CUDA in this process."""

    vendor = "nvidia"
    package_set = "gpu"
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
        "kubernetes": "request a GPU in the pod: resources.limits nvidia.com/gpu: 1",
        "lxc": "give the container the host's /dev/nvidia* (nvidia.runtime=true)",
    }
    sensor_interval_s = 0.2  # NVBench measures about 1 s per kernel; NVML updates about ten times per second
    forkable = True  # a loaded libcuda can be initialised after a fork
    card_per_rank = True

    def find(self, root: Path = Path("/")) -> str:
        """Return the first GPU's name and the CUDA version of its driver."""
        name, (major, minor) = self._first_card(root)
        return f"{name} (driver for CUDA {major}.{minor})"

    def visible_count(self, root: Path = Path("/")) -> int | None:
        """Return the number of visible GPUs, by default that of the device files; None if there are none."""
        visible = super().visible_count(root)
        return sum(node.name[-1].isdigit() for node in _nodes(root)) or None if visible is None else visible

    def facts(self) -> GpuFacts:
        """Return the facts about the GPUs from driver and NVML."""
        from accelbench.profiling.machine.environment.gpu import collect_nvidia

        return collect_nvidia()

    def framework_install(self, framework: str) -> str:
        """Return the command that installs a backend's framework; for CUDA 12 if there is no GPU."""
        try:
            return super().framework_install(framework)
        except DeviceMissing:
            return install_framework(framework, "gpu")

    def libraries_install(self, root: Path = Path("/")) -> str:
        """Return the command that installs the extra for this driver; without a GPU, those for CUDA 12 and 13."""
        try:
            extra: PackageSet = self.packages(root)
        except DeviceMissing:
            return f"{install_extra('gpu')} (CUDA 12) or {install_extra('gpu13')} (CUDA 13)"
        install = "make install DEVICE=gpu" if extra == "gpu" else f"make install DEVICE=gpu SET={extra}"
        return f"{install}, or {install_extra(extra)}"

    def packages(self, root: Path = Path("/")) -> PackageSet:
        """Return the extra for this driver; raise DeviceMissing without a GPU."""
        return "gpu13" if self._first_card(root)[1] >= (13, 0) else "gpu"

    def _first_card(self, root: Path) -> tuple[str, tuple[int, int]]:
        """Return the first GPU's name and the newest CUDA version that its driver supports."""
        try:
            driver = Driver()
        except NoDriver as error:
            raise self._no_library(root, str(error)) from None
        try:
            version = driver.cuda_version()
            if version < OLDEST_CUDA:  # it may lack functions that are called next
                found = f"no usable GPU: the driver supports only CUDA {version[0]}.{version[1]}"
                raise DeviceMissing(found, "install driver 525 or newer (CUDA 12)")
            devices = driver.devices()
        except CudaError as error:
            raise self._no_device(root, str(error), error.name) from None
        if not devices:
            raise self._no_device(root, "cuDeviceGetCount returned 0 devices", "CUDA_ERROR_NO_DEVICE")
        return devices[0].name, version

    def _no_library(self, root: Path, loader_message: str) -> DeviceMissing:
        """Return the error for a libcuda that cannot be loaded: no driver, or not available in this container."""
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
            advice = "add the driver's libraries to the container: NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        elif engine:
            advice = self.container_advice(engine)
        elif _is_slurm_job_without_gpu():
            advice = SLURM_ADVICE
        elif module or nodes:
            advice = "install the driver's user library, or add its folder to LD_LIBRARY_PATH (Debian: libcuda1)"
        elif card:
            advice = "install the NVIDIA driver, 525 or newer"
        else:
            advice = "use DEVICE=cpu (--device cpu), or install an NVIDIA card and its driver"
        return self.absent(engine, found, advice)

    def _no_device(self, root: Path, error: str, error_name: str) -> DeviceMissing:
        """Return the error for a loaded driver library without a usable device."""
        nodes, engine = _nodes(root), collect_container(root)
        cards = [node.name for node in nodes if node.name[-1].isdigit()]
        found = f"found {', '.join(f'/dev/{card}' for card in cards)}" if cards else "found no /dev/nvidia*"
        closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None and cards and error_name == "CUDA_ERROR_NO_DEVICE":
            advice = f"CUDA_VISIBLE_DEVICES={visible!r} hides all cards: unset it or list an existing card"
        elif engine and not nodes:
            advice = self.container_advice(engine)
        elif _is_slurm_job_without_gpu():
            advice = SLURM_ADVICE
        elif closed:
            advice = f"no permission to open /dev/{closed[0].name}: add this user to the group that owns it"
        else:
            advice = CUDA_ADVICE.get(error_name, "check whether nvidia-smi lists the card, otherwise see dmesg")
        return self.absent(engine, f"the driver library is installed, but {error}; {found}", advice)

    def synchronize(self) -> None:
        """Wait until the device has finished all work; raise RuntimeError if any of it failed."""
        from accelbench.profiling.machine.nvidia.cuda import synchronize

        synchronize()

    def timer(
        self, task: Task, patience_s: float | None = None, launched: list[float] | None = None
    ) -> tuple[Callable[[], object], Callable[[float], Timing]]:
        """Return functions that run and time the task: with NVBench, unless the task declares the host clock."""
        if task.timer == "host":
            return super().timer(task, patience_s, launched)
        from accelbench.profiling.machine.nvidia.nvbench import time_nvbench

        def run_and_wait() -> None:
            task.run(0)
            self.synchronize()

        return run_and_wait, partial(time_nvbench, task.run, launched=launched)

    def cards(self, count: int) -> list[str]:
        """Return the PCI addresses of the visible devices, as CUDA interprets `CUDA_VISIBLE_DEVICES`."""
        try:
            return [device.pci_bus_id for device in Driver().devices()[:count]]
        except (NoDriver, CudaError):
            return []

    def open_sensors(self, cards: list[str], missing: list[str]) -> CardSensors:
        """Return NVML's sensors of the cards, for the sensor process, a child of the measured process."""
        from accelbench.profiling.machine.nvidia.nvml import Cards

        return Cards(cards, missing, own=os.getppid())

    def free_memory(self) -> int:
        """Return the free device memory in bytes."""
        from accelbench.profiling.machine.nvidia.cuda import free_memory

        return free_memory()

    def hold_memory(self, size: int) -> Any:
        """Allocate `size` bytes of device memory, which remain allocated until the process ends."""
        from accelbench.profiling.machine.nvidia.cuda import call

        return call("cudaMalloc", size)

    def attribute(self, name: str) -> int:
        """Return a device attribute by its name without the prefix `cudaDevAttr`."""
        from accelbench.profiling.machine.nvidia.cuda import attribute

        return attribute(name)

    def host_links(self) -> tuple[PcieLink, PcieLink] | None:
        """Return the current and the best PCI Express link of the first visible card, from NVML."""
        from accelbench.profiling.machine.nvidia.nvml import open_card, pcie_link

        cards = [open_card(address) for address in self.cards(1)]
        return pcie_link(cards[0]) if cards and cards[0] is not None else None

    def missing_from_trace(self) -> str:
        """Return the message for a trace without kernels, with the permissions that CUPTI needs."""
        return (
            "the GPU's kernels are missing from the trace: CUPTI has no permission to read them. In a container add "
            "`--cap-add=SYS_ADMIN` (or `--privileged`); on the host load the driver with "
            f"`{ALLOW_COUNTERS}` in /etc/modprobe.d, or run as root; and check that "
            "libcupti.so can be loaded (LD_LIBRARY_PATH, extras/CUPTI/lib64 of the CUDA toolkit)"
        )


def _nodes(root: Path) -> list[Path]:
    """Return the device files of GPUs."""
    return sorted(node for pattern in NODES for node in (root / "dev").glob(pattern))


def _kernel_driver(root: Path) -> str | None:
    """Return the version of the loaded kernel module, from `NVRM version: … Kernel Module  580.95.05  …`."""
    line, _, _ = (read_text(root / "proc/driver/nvidia/version") or "").partition("\n")
    version = next((word for word in line.split() if word[0].isdigit() and "." in word), "of unknown version")
    return version if line else None


def _is_slurm_job_without_gpu() -> bool:
    """Return whether this is a Slurm job without a GPU."""
    return "SLURM_JOB_ID" in os.environ and not any(name in os.environ for name in SLURM_VARIABLES)
