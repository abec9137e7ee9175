"""The kinds of device, each a small class in a file of this folder, found by its place: a new kind is a new file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from accelbench.profiling import modules_of
from accelbench.profiling.machine.packages import PackageSet
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.work import Bounded

if TYPE_CHECKING:
    from accelbench.profiling.benchmark import Task
    from accelbench.profiling.records.environment import Environment, Peak
    from accelbench.profiling.records.telemetry import Reading
    from accelbench.profiling.records.timing import Timing


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
    """The answers of one kind of device to the suite; those given here are of a kind that has no better ones."""

    name: ClassVar[Device]
    """The word that a user types, and a record stores: `gpu`."""
    title: ClassVar[str]
    """The word that messages use: `GPU`."""
    container_flags: ClassVar[Mapping[str, str]] = {}
    """The advice that gives a container access to the device, by the container's engine."""
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


@cache
def kinds() -> dict[Device, DeviceKind]:
    """Return every kind by its name, in the order of their files; importing them imports no framework."""
    found = [
        item()
        for module in modules_of(__name__).values()
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, DeviceKind) and item.__module__ == module.__name__
    ]
    return {kind.name: kind for kind in found}


def device_kind(name: str) -> DeviceKind:
    """Return the kind of that name; ValueError if there is none."""
    if name not in kinds():
        raise ValueError(f"no device is called {name!r}")
    return kinds()[name]


def find_device(name: str, root: Path = Path("/")) -> Device:
    """Return the name of the device to measure: `auto` is the first that can be used, the CPU where no other can.

    Raises `DeviceMissing`. `root` is where `/dev`, `/proc` and `/sys` are looked for. Imports no framework.
    """
    if name != "auto":
        device_kind(name).require(root)
        return name
    for other in sorted(kinds(), key=lambda kind: kind == "cpu"):
        try:
            device_kind(other).require(root)
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
