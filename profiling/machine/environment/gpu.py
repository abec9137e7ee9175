"""Facts about the GPUs visible to this process, in CUDA's order."""

from __future__ import annotations

import hashlib
from typing import Any

import pynvml

from accelbench.profiling.machine.environment import COLLECTORS, GpuFacts
from accelbench.profiling.machine.environment.software import installed_version
from accelbench.profiling.machine.nvidia.libcuda import CudaDevice, CudaError, Driver, NoDriver
from accelbench.profiling.machine.nvidia.nvml import POSSIBLE, mps_servers, open_card, read
from accelbench.profiling.records.environment import Cuda, Gpu

LINKS = {"pcie_generation": (1, 10), "pcie_width": (1, 64)}
"""Smallest and largest possible values of a PCI Express link; integrated GPUs have none."""
RUNTIMES = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime")


def collect_nvidia() -> GpuFacts:
    """Return the facts about NVIDIA's GPUs; without a working driver, no GPU and the reason."""
    cuda = None
    try:
        driver = Driver()
        cuda = collect_cuda(driver)
        return GpuFacts(collect_gpus(driver), cuda)
    except NoDriver:
        return GpuFacts([], None, {"gpus": "no NVIDIA driver library (libcuda.so.1) was found"})
    except CudaError as error:
        return GpuFacts([], cuda, {"gpus": str(error)})


def collect_visible_gpus() -> GpuFacts:
    """Return the facts about the first vendor with GPUs on this machine; NVIDIA's facts if there is none."""
    first = collect_nvidia()
    if first.gpus:
        return first
    others = (collect() for vendor, collect in COLLECTORS.items() if vendor != "nvidia")
    return next((facts for facts in others if facts.gpus), first)


def collect_gpus(driver: Driver) -> list[Gpu]:
    """Return the visible devices in CUDA's order, with NVML's card settings; raise CudaError as `Driver` does."""
    return [_describe(index, device, open_card(device.pci_bus_id)) for index, device in enumerate(driver.devices())]


def _describe(index: int, device: CudaDevice, card: Any | None) -> Gpu:
    return Gpu(
        index=index,
        name=device.name,
        vendor="nvidia",
        uuid_hash=hash_uuid(device.uuid),
        memory_bytes=device.memory_bytes,
        compute_capability=device.compute_capability,
        multiprocessors=device.multiprocessors,
        l2_bytes=device.l2_bytes or None,
        **(_settings(card) if card is not None else {}),
    )


def _settings(card: Any) -> dict[str, Any]:
    watts = _possible(read(pynvml.nvmlDeviceGetEnforcedPowerLimit, card), "gpu.power", 1000)
    ecc, mig = read(pynvml.nvmlDeviceGetEccMode, card), read(pynvml.nvmlDeviceGetMigMode, card)
    persistence, servers = read(pynvml.nvmlDeviceGetPersistenceMode, card), mps_servers(card)
    return {
        "sm_clock_max_mhz": _possible(_highest(card, pynvml.NVML_CLOCK_SM), "gpu.sm_clock") or None,
        "memory_clock_max_mhz": _possible(_highest(card, pynvml.NVML_CLOCK_MEM), "gpu.memory_clock") or None,
        "power_limit_w": watts,
        "ecc": None if ecc is None else bool(ecc[0]),  # [current, pending until the next reset]
        "mig": None if mig is None else bool(mig[0]),
        "persistence": None if persistence is None else bool(persistence),
        "mps": None if servers is None else bool(servers),
        "pcie_generation": _possible(read(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, card), "pcie_generation"),
        "pcie_width": _possible(read(pynvml.nvmlDeviceGetMaxPcieLinkWidth, card), "pcie_width"),
    }


def _highest(card: Any, clock: int) -> int | None:
    found: int | None = read(pynvml.nvmlDeviceGetMaxClockInfo, card, clock)
    return found


def _possible(value: int | None, name: str, divisor: int = 1) -> Any:
    """Return a value divided by the divisor if it is one; None for a value that no card has."""
    low, high = (POSSIBLE | LINKS)[name]
    if value is None or not low <= value / divisor <= high:
        return None
    return value if divisor == 1 else value / divisor


def hash_uuid(uuid: str) -> str:
    """Return the first 12 hex digits of the UUID's SHA-256."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def collect_cuda(driver: Driver) -> Cuda:
    """Return the versions of the driver and of the installed CUDA runtime; raise CudaError as `Driver` does."""
    major, minor = driver.cuda_version()
    return Cuda(
        driver=collect_driver_version(),
        driver_cuda=f"{major}.{minor}",
        runtime=next((found for name in RUNTIMES if (found := installed_version(name))), None),
    )


def collect_driver_version() -> str | None:
    """Return the driver's version, such as 580.95.05."""
    read(pynvml.nvmlInit)
    return read(pynvml.nvmlSystemGetDriverVersion)
