"""Device backends: one class and file per kind of device, or per vendor of a kind.

A new file in this folder adds a backend. `gpu` has several vendors, whose backends derive from `GpuBackend`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from accelbench.profiling import modules_of
from accelbench.profiling.machine.environment import COLLECTORS, PACKAGES, GpuFacts
from accelbench.profiling.machine.packages import PackageSet, install_framework
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.work import Bounded

if TYPE_CHECKING:
    from accelbench.profiling.benchmark import Task
    from accelbench.profiling.machine.pcie import PcieLink
    from accelbench.profiling.records.environment import Environment, Peak
    from accelbench.profiling.records.telemetry import Reading
    from accelbench.profiling.records.timing import Timing

FIRST_VENDOR = "nvidia"
"""Vendor that is tried first; the others follow in the order of their files."""


class DeviceMissing(Exception):
    """Error for an unusable device: what was searched and found, and the remedy, in one line."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}: {advice}")
        self.found, self.advice = found, advice


class CardSensors(Protocol):
    """Sensors of the cards in a measurement, read by the sensor process."""

    def read(self) -> list[Reading]:
        """Return the current readings; names start with the kind of device."""

    def throttle_reasons(self) -> list[str]:
        """Return the current throttle reasons of all cards."""

    def energy(self) -> float | None:
        """Return the cumulative energy of all cards in joules; None if a card has no energy counter."""


class DeviceKind(ABC):
    """Base class of device backends. The defaults suit a device without timers, sensors or known peaks."""

    name: ClassVar[Device]
    """Name in options and records: `gpu`."""
    title: ClassVar[str]
    """Name in messages: `GPU`."""
    vendor: ClassVar[str] = ""
    """Vendor of the devices, such as `nvidia`; empty if the backend is for any vendor."""
    package_set: ClassVar[PackageSet] = "cpu"
    """Default package set for the devices: a file in `requirements/`."""
    first_backend: ClassVar[str] = "tensorflow"
    """Default backend of training workloads, if it is installed."""
    container_flags: ClassVar[Mapping[str, str]] = {}
    """Advice for giving a container access to the device, by container engine."""
    container_options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Command-line options that give a container access to the device, by engine (docker, podman, apptainer)."""
    asynchronous: ClassVar[bool] = False
    """Whether calls are asynchronous, so that a timer has to `synchronize`."""
    sensor_interval_s: ClassVar[float] = 0.5
    """Seconds between two readings of the sensors."""
    forkable: ClassVar[bool] = False
    """Whether a worker may be forked after its libraries have been imported."""
    card_per_rank: ClassVar[bool] = False
    """Whether each rank on a host uses a separate card and reads its energy."""

    @abstractmethod
    def find(self, root: Path = Path("/")) -> str:
        """Return a description of the device, regardless of installed Python packages; raise DeviceMissing without one.

        `root` is the folder that contains `/dev`, `/proc` and `/sys`.
        """

    def require(self, root: Path = Path("/")) -> None:
        """Raise DeviceMissing unless the device and the libraries that measure it are available."""
        self.find(root)

    def packages(self, root: Path = Path("/")) -> PackageSet:
        """Return the package set for the present device; may raise `DeviceMissing`."""
        return self.package_set

    def framework_install(self, framework: str) -> str:
        """Return the command that installs a backend's framework for this device; empty for an unknown framework."""
        return install_framework(framework, self.packages())

    def synchronize(self) -> None:  # noqa: B027 - synchronous devices need no implementation
        """Wait until the device has finished all work."""

    def timer(
        self, task: Task, patience_s: float | None = None, launched: list[float] | None = None
    ) -> tuple[Callable[[], object], Callable[[float], Timing]]:
        """Return a function that runs the task once and waits, and one that times it within a limit in seconds.

        `patience_s` limits the additional time for undisturbed samples. `launched` receives the time of each sample's
        launch by `perf_counter`, if the timer knows it.
        """
        from accelbench.profiling.machine.cause_counters import open_causes
        from accelbench.profiling.ranks.world import world
        from accelbench.profiling.timing.host import sample_seconds, time_host

        def run_and_wait() -> None:
            task.run()
            self.synchronize()

        run = run_and_wait if self.asynchronous and task.timer == "device" else task.run
        sample = task.sample or partial(sample_seconds, run)
        # What disturbs the other ranks is not known here.
        causes = open_causes if world().size == 1 else None
        return run, lambda max_seconds: time_host(
            sample, max_seconds, patience_s, causes, task.overhead() if task.overhead else 0.0
        )

    def cards(self, count: int) -> list[str]:
        """Return the addresses of the first `count` cards; empty without sensors."""
        return []

    def open_sensors(self, cards: list[str], missing: list[str]) -> CardSensors | None:
        """Return the sensors of the cards at these addresses, and add unavailable sensors to `missing`."""
        return None

    def memory_left(self) -> str:
        """Return the free memory as text; empty if unknown."""
        return ""

    def peak(
        self,
        environment: Environment,
        dtype: str,
        metric: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return the vendor's peak of one device for arithmetic in `dtype` (FLOP/s) or for its memory (byte/s).

        `unit_kind` selects the arithmetic units, `plain` or `tensor`; None selects the faster ones. `kept_to_cpus` is
        the number of CPUs to which the point is limited.
        """
        from accelbench.profiling.records.environment import Peak

        return Peak(value=None, reason=f"the environment record has no name of the {self.title}")

    def model(self, environment: Environment) -> str | None:
        """Return the vendor's name of the device in an environment record; None if unknown."""
        return None

    def missing_from_trace(self) -> str:
        """Return the message for a trace without events of the device, with the remedy."""
        return f"the {self.title}'s operations are missing from the trace"

    def settings_of_rank(self, local_rank: int, local_size: int) -> dict[str, str]:
        """Return the environment variables that make only its own card visible to a rank of a host."""
        return {}

    def absent(self, engine: str | None, found: str, advice: str) -> DeviceMissing:
        """Return the error for a missing device, which names the engine of the container, if any."""
        inside = f" inside this {engine} container" if engine else ""
        return DeviceMissing(f"no {self.title}{inside}: {found}", advice)

    def container_advice(self, engine: str) -> str:
        """Return the advice that gives a container of this engine access to the device."""
        return self.container_flags.get(engine, f"give the {engine} container access to the host's {self.title}")


class GpuBackend(DeviceKind):
    """Base class of GPU backends, one per vendor. The defaults require the vendor's build of CuPy.

    A subclass must define `vendor`, `find` and `facts`.
    """

    name = "gpu"
    title = "GPU"
    asynchronous = True
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {"cupy": ("cupy",)}
    """Required libraries, each with alternative modules, one of which must be installed."""
    visible_devices: ClassVar[str] = "CUDA_VISIBLE_DEVICES"
    """Environment variable with the visible GPUs of a process."""
    recorded_packages: ClassVar[tuple[str, ...]] = ()
    """Vendor's Python packages with recorded versions, such as `cupy-rocm-7-0`."""
    package_patterns: ClassVar[tuple[str, ...]] = ()
    """Patterns of Python packages that affect only this vendor's GPUs: `nvidia-*`."""
    setting_patterns: ClassVar[tuple[str, ...]] = ()
    """Patterns of environment variables that affect only this vendor's GPUs: `CUDA_*`."""

    @abstractmethod
    def facts(self) -> GpuFacts:
        """Return the facts about the visible GPUs for the environment record."""

    def require(self, root: Path = Path("/")) -> None:
        """Raise DeviceMissing unless driver, device and the required libraries are available."""
        device = self.find(root)
        missing = [name for name, modules in self.libraries.items() if not any(map(is_installed, modules))]
        if missing:
            raise DeviceMissing(
                f"no usable GPU: found {device}, but not the package {' or '.join(missing)}",
                self.libraries_install(root),
            )

    def visible_count(self, root: Path = Path("/")) -> int | None:
        """Return the number of visible GPUs without a call to the driver; None if unknown."""
        visible = os.environ.get(self.visible_devices)
        return None if visible is None else sum(entry.strip() not in ("", "-1") for entry in visible.split(","))

    def libraries_install(self, root: Path = Path("/")) -> str:
        """Return the advice that installs the required libraries."""
        return f"install {' and '.join(self.libraries) or 'CuPy'} for GPUs of {self.vendor}"

    def library(self, module: str) -> ModuleType:
        """Import a module of a GPU library; raise Skip with the install advice if it fails."""
        from accelbench.profiling.benchmark import Skip

        try:
            return import_module(module)
        except ImportError as error:
            raise Skip(f"{module} cannot be imported ({error}): {self.libraries_install()}") from error

    def synchronize(self) -> None:
        """Wait until the device has finished all work; raise RuntimeError if any of it failed."""
        self.library("cupy").cuda.runtime.deviceSynchronize()

    def free_memory(self) -> int:
        """Return the free device memory in bytes."""
        free, _ = self.library("cupy").cuda.runtime.memGetInfo()
        return int(free)

    def hold_memory(self, size: int) -> Any:
        """Allocate `size` bytes of device memory; return the owning object."""
        return self.library("cupy").cuda.alloc(size)

    def attribute(self, name: str) -> int:
        """Return `L2CacheSize` (bytes), `MultiProcessorCount` or another property of the current device."""
        runtime = self.library("cupy").cuda.runtime
        return int(runtime.getDeviceProperties(runtime.getDevice())[name[0].lower() + name[1:]])

    def host_links(self) -> tuple[PcieLink, PcieLink] | None:
        """Return the current link of the first device to the host, and the best that it supports; None if unknown."""
        return None

    def memory_left(self) -> str:
        """Return the free memory of the current device as text, or the driver's error."""
        from accelbench.profiling.benchmark import Skip
        from accelbench.profiling.text import format_bytes

        try:
            return f"{format_bytes(self.free_memory())} of device memory free"
        except (RuntimeError, Skip) as unknown:  # a broken context must not hide the original error
            return f"the free device memory is unknown: {unknown}"

    def peak(
        self,
        environment: Environment,
        dtype: str,
        metric: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return the vendor's peak of the first card; `kept_to_cpus` has no effect."""
        from accelbench.profiling.machine.vendor_peaks import peak_of_gpu
        from accelbench.profiling.records.environment import Peak

        if not environment.gpus:
            return Peak(value=None, reason="the environment record has no GPU")
        return peak_of_gpu(environment.gpus[0], dtype, metric, unit_kind)

    def model(self, environment: Environment) -> str | None:
        """Return the first card's name."""
        return environment.gpus[0].name if environment.gpus else None

    def settings_of_rank(self, local_rank: int, local_size: int) -> dict[str, str]:
        """Return the variable with the rank's card; a launcher may have restricted it already."""
        visible = os.environ.get(self.visible_devices, "")
        own = visible.split(",") if visible else list(map(str, range(local_size)))
        return {self.visible_devices: own[local_rank % len(own)]}


@cache
def kinds() -> dict[Device, tuple[DeviceKind, ...]]:
    """Return the backends by kind of device, without importing a framework."""
    found: dict[Device, list[DeviceKind]] = {}
    for module in modules_of(__name__).values():
        for item in vars(module).values():
            own = isinstance(item, type) and issubclass(item, DeviceKind) and item.__module__ == module.__name__
            if own and not isabstract(item):
                found.setdefault(item.name, []).append(item())
    for backend in gpu_backends(found.get("gpu", [])):
        COLLECTORS.setdefault(backend.vendor, backend.facts)
        PACKAGES.setdefault(backend.vendor, backend.recorded_packages)
    return {name: tuple(sorted(found[name], key=lambda one: one.vendor != FIRST_VENDOR)) for name in sorted(found)}


def gpu_backends(backends: Iterable[DeviceKind] | None = None) -> list[GpuBackend]:
    """Return the GPU backends among `backends` (None: all)."""
    return [one for one in (kinds()["gpu"] if backends is None else backends) if isinstance(one, GpuBackend)]


def device_kind(name: str, root: Path = Path("/")) -> DeviceKind:
    """Return the backend of the kind whose device is present, else the kind's first backend.

    Raises ValueError for an unknown kind. The choice is cached for the process.
    """
    if name not in kinds():
        raise ValueError(f"unknown device {name!r} (choose {', '.join(kinds())})")
    first, *others = kinds()[name]
    return _present_backend(name, root) if others else first


@cache
def _present_backend(name: str, root: Path) -> DeviceKind:
    for backend in kinds()[name]:
        try:
            backend.find(root)
        except DeviceMissing:
            continue
        return backend
    return kinds()[name][0]


def gpu_backend() -> GpuBackend:
    """Return the backend of the GPUs that are present, else of the first vendor."""
    (backend,) = gpu_backends([device_kind("gpu")])
    return backend


def find_device(name: str, root: Path = Path("/"), *, usable: bool = True) -> Device:
    """Return the name of the device to measure; `auto` selects the first usable accelerator, else the CPU.

    Raises `DeviceMissing`. With `usable=False`, a present device is returned even if its libraries are not installed.
    `root` is the folder that contains `/dev`, `/proc` and `/sys`. Imports no framework.
    """
    for candidate in [name] if name != "auto" else sorted(kinds(), key=lambda kind: kind == "cpu"):
        backend = device_kind(candidate, root)
        try:
            if usable:
                backend.require(root)
            else:
                backend.find(root)
        except DeviceMissing:
            if name != "auto":
                raise
        else:
            return candidate
    raise AssertionError("the CPU is always usable")


def is_installed(module: str) -> bool:
    """Return whether the module can be imported; unlike `find_spec`, this does not import the parent package."""
    first, *rest = module.split(".")
    spec = find_spec(first)
    for number in range(len(rest)):
        if spec is None or spec.submodule_search_locations is None:
            return False
        name = ".".join([first, *rest[: number + 1]])
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec is not None
