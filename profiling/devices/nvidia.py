"""NVIDIA's GPUs, which users call `gpu`: the driver's own library finds them, NVBench times them, NVML reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.profiling.devices import CardSensors, DeviceKind, DeviceMissing, is_installed
from accelbench.profiling.machine.environment.container import collect_container
from accelbench.profiling.machine.environment.files import has_pci_device, read_text
from accelbench.profiling.machine.nvidia import libcuda
from accelbench.profiling.machine.nvidia.libcuda import CudaError, Driver, NoDriver
from accelbench.profiling.machine.packages import PackageSet, install_extra
from accelbench.profiling.records.work import Bounded

if TYPE_CHECKING:
    from accelbench.profiling.benchmark import Task
    from accelbench.profiling.records.environment import Environment, Peak
    from accelbench.profiling.records.timing import Timing

OLDEST_CUDA = (12, 0)
LIBRARIES = {"cupy": ("cupy",), "numba.cuda": ("numba.cuda", "numba_cuda"), "cuda.bench": ("cuda.bench",)}
"""The libraries that measure on a GPU, each with the modules of which one must be there."""

NODES = ("nvidia[0-9]*", "nvidiactl", "dxg", "nvhost-gpu", "nvgpu/*")  # PCI cards; WSL; Jetson
PCI_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # PCI class codes: VGA controller, 3D controller

SLURM_ADVICE = "ask Slurm for a GPU: --gres=gpu:1"
SLURM_VARIABLES = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
CUDA_ADVICE = {
    "CUDA_ERROR_STUB_LIBRARY": "that is the toolkit's stub: take its folder out of LD_LIBRARY_PATH",
    "CUDA_ERROR_SYSTEM_NOT_READY": "start the fabric manager: sudo systemctl start nvidia-fabricmanager",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the kernel module and libcuda.so.1 are of different versions: reboot",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "take the cuda-compat library out of LD_LIBRARY_PATH",
    "CUDA_ERROR_UNKNOWN": "load the module: sudo modprobe nvidia_uvm",
}


class Nvidia(DeviceKind):
    """The GPUs that a CUDA program started here would see."""

    name = "gpu"
    title = "GPU"
    container_flags = {
        "docker": "start the container with --gpus all (the host needs the NVIDIA Container Toolkit)",
        "podman": "start the container with --device nvidia.com/gpu=all (the host needs NVIDIA's CDI specification)",
        "apptainer": "start the container with --nv",
        "singularity": "start the container with --nv",
        "kubernetes": "ask for one in the pod: resources.limits nvidia.com/gpu: 1",
        "lxc": "give the container the host's /dev/nvidia* (nvidia.runtime=true)",
    }
    asynchronous = True
    sensor_interval_s = 0.2  # NVBench measures a kernel for a second; NVML refreshes its figures some ten times in one
    forkable = True  # libcuda that is merely loaded can be initialised after a fork
    card_per_rank = True

    def find(self, root: Path = Path("/")) -> str:
        """Return the first GPU's name and the newest CUDA that its driver serves."""
        name, (major, minor) = self._first_card(root)
        return f"{name} is here (driver for CUDA {major}.{minor})"

    def require(self, root: Path = Path("/")) -> None:
        """Raise `DeviceMissing` unless there is a driver, a device and the libraries that measure it."""
        here = self.find(root)
        missing = [name for name, modules in LIBRARIES.items() if not any(map(is_installed, modules))]
        if missing:
            extra = self.packages(root)
            install = "make install DEVICE=gpu" if extra == "gpu" else f"make install DEVICE=gpu SET={extra}"
            raise DeviceMissing(
                f"no usable GPU: {here}, but Python has no {', no '.join(missing)}",
                f"{install}, or {install_extra(extra)}",
            )

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

    def memory_left(self) -> str:
        """Return the free memory of the current device, or what CUDA says instead."""
        from accelbench.profiling.machine.nvidia.cuda import free_memory
        from accelbench.profiling.text import format_bytes

        try:
            return f"{format_bytes(free_memory())} of device memory free"
        except RuntimeError as unknown:  # what broke the context must not hide what the point died of
            return f"how much device memory is free, CUDA does not tell: {unknown}"

    def peak(
        self,
        environment: Environment,
        dtype: str,
        figure: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return the vendor's peak of the first card; it is the same on however many CPUs of the host."""
        from accelbench.profiling.machine.vendor_peaks import peak_of_gpu
        from accelbench.profiling.records.environment import Peak

        if not environment.gpus:
            return Peak(value=None, reason="the environment record names no GPU")
        return peak_of_gpu(environment.gpus[0], dtype, figure, unit_kind)

    def model(self, environment: Environment) -> str | None:
        """Return the first card's name."""
        return environment.gpus[0].name if environment.gpus else None

    def missing_from_trace(self) -> str:
        """Return that CUPTI shows no kernel, and what allows it to."""
        return (
            "the GPU's kernels are missing from the trace: CUPTI may not read them here. Allow it: in a container add "
            "`--cap-add=SYS_ADMIN` (or `--privileged`); on the host load the driver with "
            "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, or run as root; and see that "
            "libcupti.so can be loaded (LD_LIBRARY_PATH, extras/CUPTI/lib64 of the CUDA toolkit)"
        )

    def settings_of_rank(self, local_rank: int, local_size: int) -> dict[str, str]:
        """Return the variable that names the rank's card; a launcher may have shown it that one only."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        own = visible.split(",") if visible else list(map(str, range(local_size)))
        return {"CUDA_VISIBLE_DEVICES": own[local_rank % len(own)]}


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
