"""The backends of devices: a class in a file of this folder for each kind of device, or for each vendor of a kind.

A new file is a new backend. `gpu` is a kind with several vendors: its backends derive from `GpuBackend`.
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
    from accelbench.profiling.records.environment import Environment, Peak
    from accelbench.profiling.records.telemetry import Reading
    from accelbench.profiling.records.timing import Timing

FIRST_VENDOR = "nvidia"
"""The vendor that is looked for first; the others follow in the order of their files."""


class DeviceMissing(Exception):
    """The device cannot be used: what was looked for and found, and what to do about it, in one line."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}: {advice}")
        self.found, self.advice = found, advice


class CardSensors(Protocol):
    """The sensors of the cards that a measurement uses, read by a process beside it."""

    def read(self) -> list[Reading]:
        """Return what every sensor shows now, under names that begin with the kind's own."""

    def throttle_reasons(self) -> list[str]:
        """Return what holds the clock of any card down at this moment."""

    def energy(self) -> float | None:
        """Return the joules that all cards have used since some moment; None if one of them does not tell."""


class DeviceKind(ABC):
    """Base class of device backends. The defaults suit a device without timers, sensors or known peaks."""

    name: ClassVar[Device]
    """The word that a user types, and a record stores: `gpu`."""
    title: ClassVar[str]
    """The word that messages use: `GPU`."""
    vendor: ClassVar[str] = ""
    """The vendor of the devices, `nvidia`; empty where the backend serves every vendor."""
    container_flags: ClassVar[Mapping[str, str]] = {}
    """The advice that gives a container access to the device, by the container's engine."""
    container_options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The options of docker, podman and apptainer that give a container access to the device."""
    asynchronous: ClassVar[bool] = False
    """Whether a call returns before the device has done its work, so that a timer has to `synchronize`."""
    sensor_interval_s: ClassVar[float] = 0.5
    """The seconds between two readings of the sensors."""
    forkable: ClassVar[bool] = False
    """Whether a worker may be forked by a process that has imported its libraries."""
    card_per_rank: ClassVar[bool] = False
    """Whether each of several ranks on a host uses, and reads the energy of, a card of its own."""

    @abstractmethod
    def find(self, root: Path = Path("/")) -> str:
        """Return a sentence that names the device that is here, whatever Python has; raise `DeviceMissing`.

        `root` is where `/dev`, `/proc` and `/sys` are looked for.
        """

    def require(self, root: Path = Path("/")) -> None:
        """Raise `DeviceMissing` unless the device is here, and Python has the libraries that measure it."""
        self.find(root)

    def packages(self, root: Path = Path("/")) -> PackageSet:
        """Return the extra that brings the device's libraries and TensorFlow; `DeviceMissing` where there is none."""
        return "cpu"

    def framework_install(self, framework: str) -> str:
        """Return the command that installs a backend's framework for this device; empty for an unknown framework."""
        return install_framework(framework, self.packages())

    def synchronize(self) -> None:  # noqa: B027 - a kind whose calls return when they are done has nothing to wait for
        """Wait until the device has done all its work."""

    def timer(self, task: Task) -> tuple[Callable[[], object], Callable[[float], Timing]]:
        """Return how to run the task once to its end, and how to time it within so many seconds, by the host clock."""
        from accelbench.profiling.timing.host import sample_seconds, time_host

        def run_and_wait() -> None:
            task.run()
            self.synchronize()

        run = run_and_wait if self.asynchronous and task.timer == "device" else task.run
        sample = task.sample or partial(sample_seconds, run)
        return run, lambda max_seconds: time_host(sample, max_seconds)

    def cards(self, count: int) -> list[str]:
        """Return the addresses of the first so many cards, where they have sensors."""
        return []

    def open_sensors(self, cards: list[str], missing: list[str]) -> CardSensors | None:
        """Open the sensors of the cards at these addresses, and add to `missing` what none of them can tell."""
        return None

    def memory_left(self) -> str:
        """Return how much memory is free, in words; empty where nobody tells."""
        return ""

    def peak(
        self,
        environment: Environment,
        dtype: str,
        figure: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return the vendor's peak of one such device for arithmetic in `dtype` (FLOP/s) or for its memory (byte/s).

        Arithmetic is bounded by the device's `unit_kind`, `plain` or `tensor`, and where that is None by the better
        one. `kept_to_cpus` is the number of the host's CPUs where the point was to use no more.
        """
        from accelbench.profiling.records.environment import Peak

        return Peak(value=None, reason=f"the environment record does not name the {self.title}")

    def model(self, environment: Environment) -> str | None:
        """Return the vendor's name of the device in that environment; None where the record does not tell."""
        return None

    def missing_from_trace(self) -> str:
        """Return the sentence about a trace that shows nothing of the device, with what mends it."""
        return f"the {self.title}'s operations are missing from the trace"

    def settings_of_rank(self, local_rank: int, local_size: int) -> dict[str, str]:
        """Return the environment variables that show a rank, one of so many on its host, its own card only."""
        return {}

    def absent(self, engine: str | None, found: str, advice: str) -> DeviceMissing:
        """Return the refusal where there is no such device, in the container of that engine if it is in one."""
        inside = f" inside this {engine} container" if engine else ""
        return DeviceMissing(f"no {self.title}{inside}: {found}", advice)

    def container_advice(self, engine: str) -> str:
        """Return what gives a container of that engine access to the device."""
        return self.container_flags.get(engine, f"give the {engine} container access to the host's {self.title}")


class GpuBackend(DeviceKind):
    """Base class of the backends of GPUs, one for each vendor. The defaults need CuPy, in the vendor's build.

    A subclass has `vendor`, `find` and `facts`; everything else has a default.
    """

    name = "gpu"
    title = "GPU"
    asynchronous = True
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {"cupy": ("cupy",)}
    """The libraries that measure on the GPU, each with the modules of which one must be installed."""
    visible_devices: ClassVar[str] = "CUDA_VISIBLE_DEVICES"
    """The environment variable that lists the GPUs that a process may use."""
    recorded_packages: ClassVar[tuple[str, ...]] = ()
    """The names of the vendor's Python packages whose versions are recorded: `cupy-rocm-7-0`."""
    package_patterns: ClassVar[tuple[str, ...]] = ()
    """The names of Python packages that change nothing but this vendor's GPUs: `nvidia-*`."""
    setting_patterns: ClassVar[tuple[str, ...]] = ()
    """The names of environment variables that change nothing but this vendor's GPUs: `CUDA_*`."""

    @abstractmethod
    def facts(self) -> GpuFacts:
        """Return the facts about the visible GPUs for the environment record; no GPU where there is none."""

    def require(self, root: Path = Path("/")) -> None:
        """Raise `DeviceMissing` unless there is a driver, a device and the libraries that measure it."""
        here = self.find(root)
        missing = [name for name, modules in self.libraries.items() if not any(map(is_installed, modules))]
        if missing:
            raise DeviceMissing(
                f"no usable GPU: {here}, but Python has no {', no '.join(missing)}", self.libraries_install(root)
            )

    def libraries_install(self, root: Path = Path("/")) -> str:
        """Return what installs the libraries that measure on the GPU."""
        return f"install {' and '.join(self.libraries) or 'CuPy'} for GPUs of {self.vendor}"

    def library(self, module: str) -> ModuleType:
        """Import a module of a GPU library; Skip, with what to install, where it is missing."""
        from accelbench.profiling.benchmark import Skip

        try:
            return import_module(module)
        except ImportError as error:
            raise Skip(f"{module} cannot be imported ({error}): {self.libraries_install()}") from error

    def synchronize(self) -> None:
        """Wait until the device has done all its work; RuntimeError if any of it failed."""
        self.library("cupy").cuda.runtime.deviceSynchronize()

    def free_memory(self) -> int:
        """Return the bytes of device memory that are free now."""
        free, _ = self.library("cupy").cuda.runtime.memGetInfo()
        return int(free)

    def hold_memory(self, size: int) -> Any:
        """Allocate that many bytes of device memory, and return the object that owns them."""
        return self.library("cupy").cuda.alloc(size)

    def attribute(self, name: str) -> int:
        """Return `L2CacheSize` (bytes), `MultiProcessorCount` or another property of the current device."""
        runtime = self.library("cupy").cuda.runtime
        return int(runtime.getDeviceProperties(runtime.getDevice())[name[0].lower() + name[1:]])

    def memory_left(self) -> str:
        """Return the free memory of the current device, or the driver's error in place of it."""
        from accelbench.profiling.benchmark import Skip
        from accelbench.profiling.text import format_bytes

        try:
            return f"{format_bytes(self.free_memory())} of device memory free"
        except (RuntimeError, Skip) as unknown:  # what broke the context must not hide what the point died of
            return f"the free device memory is unknown: {unknown}"

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

    def settings_of_rank(self, local_rank: int, local_size: int) -> dict[str, str]:
        """Return the variable that names the rank's card; a launcher may have shown it that one only."""
        visible = os.environ.get(self.visible_devices, "")
        own = visible.split(",") if visible else list(map(str, range(local_size)))
        return {self.visible_devices: own[local_rank % len(own)]}


@cache
def kinds() -> dict[Device, tuple[DeviceKind, ...]]:
    """Return the backends of every kind of device by its name; importing them imports no framework."""
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
    """Return the GPU backends among these, or those of all vendors."""
    return [one for one in (kinds()["gpu"] if backends is None else backends) if isinstance(one, GpuBackend)]


def device_kind(name: str, root: Path = Path("/")) -> DeviceKind:
    """Return the kind's backend whose device is here, the first backend where there is none.

    ValueError if there is no such kind. The choice is made once in a process.
    """
    if name not in kinds():
        raise ValueError(f"no device is called {name!r}")
    first, *others = kinds()[name]
    return _backend_here(name, root) if others else first


@cache
def _backend_here(name: str, root: Path) -> DeviceKind:
    for backend in kinds()[name]:
        try:
            backend.find(root)
        except DeviceMissing:
            continue
        return backend
    return kinds()[name][0]


def gpu_backend() -> GpuBackend:
    """Return the backend of the GPUs that are here, of the first vendor where there are none."""
    (backend,) = gpu_backends([device_kind("gpu")])
    return backend


def find_device(name: str, root: Path = Path("/")) -> Device:
    """Return the name of the device to measure: `auto` is the first that can be used, the CPU where no other can.

    Raises `DeviceMissing`. `root` is where `/dev`, `/proc` and `/sys` are looked for. Imports no framework.
    """
    if name != "auto":
        device_kind(name, root).require(root)
        return name
    for other in sorted(kinds(), key=lambda kind: kind == "cpu"):
        try:
            device_kind(other, root).require(root)
        except DeviceMissing:
            continue
        return other
    raise AssertionError("there is always a CPU")


def is_installed(module: str) -> bool:
    """Tell whether the module could be imported; unlike `find_spec` alone this does not import the parent package."""
    first, *rest = module.split(".")
    spec = find_spec(first)
    for number in range(len(rest)):
        if spec is None or spec.submodule_search_locations is None:
            return False
        name = ".".join([first, *rest[: number + 1]])
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec is not None
