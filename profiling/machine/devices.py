"""Finding the device that was asked for, and saying what is missing where it cannot be used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from profiling.machine.environment.container import collect_container
from profiling.machine.environment.files import read_text
from profiling.machine.nvidia.libcuda import LIBCUDA, CudaError, Driver, NoDriver
from profiling.records.point import Device

OLDEST_CUDA = (12, 0)
GPU_LIBRARIES = {"cupy": ("cupy",), "numba.cuda": ("numba.cuda", "numba_cuda"), "cuda.bench": ("cuda.bench",)}
"""What measures on a GPU, with the modules of which one must be there."""

TPU_LIBRARIES = ("tensorflow", "jax")

NVIDIA_NODES = ("nvidia[0-9]*", "nvidiactl", "dxg", "nvhost-gpu", "nvgpu/*")  # PCI cards; WSL; Jetson
NVIDIA_PCI_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # PCI class codes: VGA controller, 3D controller
TPU_PCI_VENDOR = "0x1ae0"
# PCI device numbers of TPU v2/v3, v4, v5p, v5e, v6e, 7x, as JAX's hardware_utils.py lists them.
TPU_PCI_DEVICES = ("0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")

GPU_FLAGS = {
    "docker": "start the container with --gpus all (the host needs the NVIDIA Container Toolkit)",
    "podman": "start the container with --device nvidia.com/gpu=all (the host needs NVIDIA's CDI specification)",
    "apptainer": "start the container with --nv",
    "singularity": "start the container with --nv",
    "kubernetes": "ask for one in the pod: resources.limits nvidia.com/gpu: 1",
    "lxc": "give the container the host's /dev/nvidia* (nvidia.runtime=true)",
}
SLURM_ADVICE = "ask Slurm for a GPU: --gres=gpu:1"
SLURM_GPU_VARIABLES = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
CUDA_ADVICE = {
    "CUDA_ERROR_STUB_LIBRARY": "that is the toolkit's stub: take its folder out of LD_LIBRARY_PATH",
    "CUDA_ERROR_SYSTEM_NOT_READY": "start the fabric manager: sudo systemctl start nvidia-fabricmanager",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the kernel module and libcuda.so.1 are of different versions: reboot",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "take the cuda-compat library out of LD_LIBRARY_PATH",
    "CUDA_ERROR_UNKNOWN": "load the module: sudo modprobe nvidia_uvm",
}


class DeviceMissing(Exception):
    """The device cannot be used: what was looked for and found, and what to do about it, in one line."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}: {advice}")
        self.found, self.advice = found, advice


def find_device(name: str, root: Path = Path("/"), libcuda: str = LIBCUDA) -> Device:
    """The device of that name, `auto` being the GPU if it can be used, else the TPU, else the CPU.

    Raises `DeviceMissing`. `root` is where `/dev`, `/proc` and `/sys` are looked for. Imports no framework.
    """
    checks: dict[Device, Callable[[], None]] = {
        "gpu": lambda: require_gpu(root, libcuda),
        "tpu": lambda: require_tpu(root),
        "cpu": lambda: None,
    }
    for device, check in checks.items():
        if name == device:
            check()
            return device
        if name == "auto":
            try:
                check()
            except DeviceMissing:
                continue
            return device
    raise ValueError(f"no device is called {name!r}")


def require_gpu(root: Path = Path("/"), libcuda: str = LIBCUDA) -> None:
    """Raise `DeviceMissing` unless there is a driver, a device and the libraries that measure it."""
    name, version = find_gpu(root, libcuda)
    missing = [name for name, modules in GPU_LIBRARIES.items() if not any(map(is_installed, modules))]
    if missing:
        extra = "gpu13" if version >= (13, 0) else "gpu"
        install = "make install DEVICE=gpu" if extra == "gpu" else "make install DEVICE=gpu SET=gpu13"
        raise DeviceMissing(
            f"no usable GPU: {name} is here (driver for CUDA {version[0]}.{version[1]}), "
            f"but Python has no {', no '.join(missing)}",
            f"{install}, or pip install 'accelbench[{extra}]'",
        )


def find_gpu(root: Path = Path("/"), libcuda: str = LIBCUDA) -> tuple[str, tuple[int, int]]:
    """The first GPU's name and the newest CUDA that its driver serves, whatever Python has; else `DeviceMissing`."""
    try:
        driver = Driver(libcuda)
    except NoDriver as error:
        raise _no_library(root, libcuda, str(error)) from None
    try:
        version, devices = driver.cuda_version(), driver.devices()
    except CudaError as error:
        raise _no_device(root, str(error), error.name) from None
    if not devices:
        raise _no_device(root, "cuDeviceGetCount answered 0 devices", "CUDA_ERROR_NO_DEVICE")
    if version < OLDEST_CUDA:
        found = (
            f"no usable GPU: {devices[0].name} is here, but its driver serves CUDA {version[0]}.{version[1]} at most"
        )
        raise DeviceMissing(found, "install driver 525 or newer, which serves CUDA 12")
    return devices[0].name, version


def _no_library(root: Path, libcuda: str, loader_message: str) -> DeviceMissing:
    """There is no libcuda: no driver, or one that this container or installation was not given."""
    nodes, module, engine = nvidia_nodes(root), _kernel_driver(root), collect_container(root)
    card = _has_pci_device(root, NVIDIA_PCI_VENDOR, classes=DISPLAY_CLASSES)
    present = [
        *([f"the kernel driver {module} in /proc/driver/nvidia"] if module else []),
        *([f"/dev/{nodes[0].name}"] if nodes else []),
        *(["an NVIDIA card on the PCI bus"] if card else []),
    ]
    if "No such file" not in loader_message:
        present.insert(0, f"a {libcuda} that does not load ({loader_message})")
    found = (
        f"no GPU{_inside(engine)}: looked for the driver's {libcuda}, /dev/nvidia* and /proc/driver/nvidia, "
        f"found {' and '.join(present) or 'none of them'}"
    )
    if engine and nodes:
        advice = "give the container the driver's libraries too: NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    elif engine:
        advice = _container_advice(engine)
    elif _slurm_gave_none():
        advice = SLURM_ADVICE
    elif module or nodes:
        advice = "install the driver's user library, or add its folder to LD_LIBRARY_PATH (Debian: libcuda1)"
    elif card:
        advice = "install the NVIDIA driver, 525 or newer"
    else:
        advice = "use DEVICE=cpu (--device cpu), or install an NVIDIA card and its driver"
    return DeviceMissing(found, advice)


def _no_device(root: Path, answer: str, error_name: str) -> DeviceMissing:
    """There is a driver library, but it reaches no device."""
    nodes, engine = nvidia_nodes(root), collect_container(root)
    cards = [node.name for node in nodes if node.name[-1].isdigit()]
    seen = f"found {', '.join(f'/dev/{card}' for card in cards)}" if cards else "found no /dev/nvidia*"
    found = f"no GPU{_inside(engine)}: the driver's library is here, but {answer}; {seen}"
    closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and cards and error_name == "CUDA_ERROR_NO_DEVICE":
        advice = f"CUDA_VISIBLE_DEVICES={visible!r} hides every card: unset it, or name one that is here"
    elif engine and not nodes:
        advice = _container_advice(engine)
    elif _slurm_gave_none():
        advice = SLURM_ADVICE
    elif closed:
        advice = f"this user may not open /dev/{closed[0].name}: join the group that owns it"
    else:
        advice = CUDA_ADVICE.get(error_name, "see whether nvidia-smi lists the card, and dmesg if it does not")
    return DeviceMissing(found, advice)


def _inside(engine: str | None) -> str:
    return f" inside this {engine} container" if engine else ""


def _container_advice(engine: str) -> str:
    return GPU_FLAGS.get(engine, f"give the {engine} container access to the host's GPU")


def _slurm_gave_none() -> bool:
    return "SLURM_JOB_ID" in os.environ and not any(name in os.environ for name in SLURM_GPU_VARIABLES)


def nvidia_nodes(root: Path) -> list[Path]:
    """The device files through which a GPU is reached."""
    return sorted(node for pattern in NVIDIA_NODES for node in (root / "dev").glob(pattern))


def _kernel_driver(root: Path) -> str | None:
    """The version of the loaded kernel module: `NVRM version: … Kernel Module  580.95.05  …`."""
    line, _, _ = (read_text(root / "proc/driver/nvidia/version") or "").partition("\n")
    version = next((word for word in line.split() if word[0].isdigit() and "." in word), "of unknown version")
    return version if line else None


def _has_pci_device(root: Path, vendor: str, devices: tuple[str, ...] = (), classes: tuple[str, ...] = ()) -> bool:
    """Whether a PCI device of that vendor with one of those numbers, or classes, is plugged in."""
    return any(
        read_text(folder / "vendor") == vendor
        and (
            read_text(folder / "device") in devices
            or (read_text(folder / "class") or "").startswith(classes or ("none",))
        )
        for folder in (root / "sys/bus/pci/devices").glob("*")
    )


def require_tpu(root: Path = Path("/")) -> None:
    """Raise `DeviceMissing` unless there is a TPU and a library that reaches it."""
    where = find_tpu(root)
    frameworks = [name for name in TPU_LIBRARIES if is_installed(name)]
    # A TPU behind an address brings its own libtpu; one in this machine needs ours.
    if not frameworks or not (is_installed("libtpu") or _tpu_address()):
        lacking = "libtpu" if frameworks else f"neither {' nor '.join(TPU_LIBRARIES)}"
        raise DeviceMissing(
            f"no usable TPU: {where} is here, but Python has {'no ' if frameworks else ''}{lacking}",
            "make install DEVICE=tpu, or pip install 'accelbench[tpu]'",
        )


def find_tpu(root: Path = Path("/")) -> str:
    """The variable or device file that leads to a TPU, whatever Python has; else `DeviceMissing`."""
    where = _tpu_address() or _tpu_node(root)
    if where is None:
        on_bus = _has_pci_device(root, TPU_PCI_VENDOR, devices=TPU_PCI_DEVICES)
        found = "a TPU on the PCI bus, but no device file" if on_bus else "none of them"
        engine = collect_container(root)
        start = "start the container with --privileged, or give it the TPU's /dev files"
        elsewhere = "use DEVICE=cpu (--device cpu), or choose a TPU runtime (a Cloud TPU VM, a Colab TPU)"
        raise DeviceMissing(
            f"no TPU{_inside(engine)}: looked for /dev/accel*, /dev/vfio, TPU_NAME and COLAB_TPU_ADDR, found {found}",
            start if on_bus else elsewhere,
        )
    return where


def _tpu_address() -> str | None:
    """The variable that names a TPU behind the network; `TPU_NAME=local` names the one in this machine."""
    set_to = {name: os.environ.get(name) for name in ("TPU_NAME", "COLAB_TPU_ADDR")}
    return next((name for name, value in set_to.items() if value and value != "local"), None)


def _tpu_node(root: Path) -> str | None:
    """The TPU's device file: `accel0` (other makers' are inside `accel/`), or VFIO's if a TPU is plugged in."""
    own = sorted((root / "dev").glob("accel[0-9]*"))
    vfio = sorted((root / "dev/vfio").glob("[0-9]*"))
    if own:
        return f"/dev/{own[0].name}"
    if vfio and _has_pci_device(root, TPU_PCI_VENDOR, devices=TPU_PCI_DEVICES):
        return f"/dev/vfio/{vfio[0].name}"
    return None


def is_installed(module: str) -> bool:
    """Whether the module could be imported; unlike `find_spec` alone it does not import the parent package."""
    first, *rest = module.split(".")
    spec = find_spec(first)
    for number in range(len(rest)):
        if spec is None or spec.submodule_search_locations is None:
            return False
        name = ".".join([first, *rest[: number + 1]])
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec is not None


def main() -> int:
    """Before anything is installed for it (`make bench`): is the device named on the command line there at all?"""
    find = {"auto": None, "cpu": None, "gpu": find_gpu, "tpu": find_tpu}
    name = sys.argv[1]
    try:
        if name not in find:
            raise DeviceMissing(f"no device is called {name!r}", f"choose {', '.join(find)}")
        if (look := find[name]) is not None:
            look()
    except DeviceMissing as missing:
        print(f"accelbench: {missing}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
