"""Observations: measured points of several runs, and their selection for a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from accelbench.execution.plan import discover
from accelbench.execution.suite import KnownDevice
from accelbench.history.fingerprint import fingerprint
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.machine.environment.container import RUNTIME_VARIABLES
from accelbench.profiling.records.point import Device, Point, Scalar
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.text import suggest
from accelbench.report.stored_run import Run
from accelbench.reproduce.claim_verdict import Inconclusive

HOST_CORES = "host_cores"
"""Number of host cores of a point; it is not an axis."""
LISTED = 3
"""Number of values or points listed in a message."""
Axes = TypeVar("Axes", dict[str, tuple[Scalar, ...]], tuple[str, ...], str | None)
"""Types of the fields with names of axes."""


def _known(name: str) -> str:
    if name not in discover():
        raise ValueError(f"unknown benchmark {name!r}{suggest(name, discover())}")
    return name


class PointSelection(Stored):
    """Selection of the points of one benchmark; its names are checked against the benchmark's declaration."""

    benchmark: Annotated[str, AfterValidator(_known)]
    devices: Annotated[tuple[KnownDevice, ...], Field(min_length=1)]
    """Devices; a ratio by device divides the time on the first by the time on each other."""
    fixed: dict[str, tuple[Scalar, ...]] = {}
    """Values by axis; points with other values are excluded."""
    swept: str | None = None
    """Axis along which points are compared."""
    free: tuple[str, ...] = ()
    """Axes without influence on the compared time, such as the number of epochs on the time of a step."""
    group: str = ""
    """Group of benchmarks, for rules that compare groups."""

    @field_validator("devices")
    @classmethod
    def _measurable(cls, devices: tuple[Device, ...], given: ValidationInfo) -> tuple[Device, ...]:
        if benchmark := discover().get(given.data.get("benchmark", "")):
            for device in devices:
                if device not in benchmark.devices:
                    others = ", ".join(benchmark.devices)
                    raise ValueError(f"{benchmark.name} has no points on {device} (choose {others})")
        return devices

    @field_validator("fixed", "swept", "free")
    @classmethod
    def _declared(cls, axes: Axes, given: ValidationInfo) -> Axes:
        if name := given.data.get("benchmark"):
            require_axes(name, (axes,) if isinstance(axes, str) else axes or ())
        return axes

    def select(self, point: Point) -> bool:
        """Return whether the point is selected, regardless of its device."""
        if point.benchmark != self.benchmark:
            return False
        if point.host_cores is not None and HOST_CORES not in {self.swept, *self.fixed}:
            return False  # a point with restricted host cores is compared only if the selection requires it
        return all(value_of(point, axis) in values for axis, values in self.fixed.items())

    def __str__(self) -> str:
        fixed = [f"{axis} {' or '.join(map(str, values))}" for axis, values in self.fixed.items()]
        fixed += [f"several values of {self.swept}"] if self.swept else []
        return f"{self.benchmark}{' with ' * bool(fixed)}{', '.join(fixed)}"


def require_axes(benchmark: str, axes: Iterable[str]) -> None:
    """Raise ValueError for an axis that the benchmark does not have."""
    known = sorted({*discover()[benchmark].axis_names, HOST_CORES})
    for axis in axes:
        if axis not in known:
            raise ValueError(f"{benchmark} has no axis {axis!r} (choose {', '.join(known)})")


def value_of(point: Point, axis: str) -> Scalar | None:
    """Return the point's value of an axis, or the declared default of an optional axis."""
    benchmark = discover().get(point.benchmark)
    default = benchmark.optional_on(point.device).get(axis, (None,)) if benchmark else (None,)
    return point.values.get(axis, default[0])


@dataclass(frozen=True)
class Observation:
    """A record and its run."""

    run: Run
    record: Record

    @property
    def point(self) -> Point:
        return self.record.point

    @property
    def machine(self) -> str:
        """Return the fingerprint of the machine, which equal hardware shares."""
        return fingerprint(self.run.info)

    @property
    def failed(self) -> bool:
        return self.record.status == "failed"

    @property
    def ceilings(self) -> dict[str, float]:
        """Return the empirical peaks of the device in this run by kind, without noisy and single-core ones."""
        device = self.point.device
        return {c.kind: c.value for c in self.run.ceilings if c.device == device and c.cores == "all" and not c.doubt}

    def value(self, facet: str) -> str:
        """Return the value of an axis, or of `device`, `host`, `backend` or `devices`, as text."""
        environment = self.run.info.environment
        if facet == "device":
            return self.point.device
        if facet == "host":
            hosted = environment.system.runtime in RUNTIME_VARIABLES.values()
            return "cloud" if hosted or environment.cpu.hypervisor is not None else "dedicated"
        if facet == "backend":
            return self.point.backend or "none"
        if facet == "devices":
            if self.record.layout.computing_devices > 1:
                return "several"
            if value_of(self.point, "visible") == "used":
                return "one alone"
            return "one of several" if len(environment.gpus) > 1 else "the only one"
        return str(value_of(self.point, facet))

    def setting(self, points: PointSelection, *ignored: str) -> tuple[str, ...]:
        """Return what must be equal in points that are compared: benchmark, backend and values by axis."""
        ignored = (*points.free, points.swept or "", *ignored)
        values = [f"{axis}={value}" for axis, value in self.point.values.items() if axis not in ignored]
        backend = [] if "backend" in ignored else [self.point.backend]
        return (self.point.benchmark, *filter(None, backend), *sorted(values))


@dataclass(frozen=True)
class Observations:
    """All observations of the given runs."""

    runs: tuple[Run, ...]
    include_noisy: bool = False
    """Whether noisy points count."""

    @cached_property
    def all(self) -> list[Observation]:
        return [Observation(run, record) for run in self.runs for record in run.records]

    @cached_property
    def _noisy(self) -> set[int]:
        return {id(record) for run in self.runs for record in run.disturbed} if not self.include_noisy else set()

    def find(self, points: PointSelection, device: Device, for_time: bool = True) -> list[Observation]:
        """Return the measured points on a device; noisy ones count only if no time is compared (`for_time`)."""
        there = [each for each in self.all if each.point.device == device]
        if not there:
            raise Inconclusive("no such device", f"these runs have no {device}")
        selected = [each for each in there if points.select(each.point)]
        if not selected:
            raise Inconclusive("no such point", f"no such point in these runs: {points} on {device}")
        measured = [each for each in selected if each.record.status == "measured" and each.record.timing]
        if not measured:
            record = selected[0].record
            why = f"{record.point} {record.status}: {record.reason or 'no reason recorded'}"
            raise Inconclusive("not measured", why)
        quiet = [each for each in measured if not for_time or id(each.record) not in self._noisy]
        if not quiet:
            raise too_noisy(measured[0])
        return quiet

    def find_on_any(self, points: PointSelection, for_time: bool = True) -> list[Observation]:
        """Return the measured points on all selected devices, at least one."""
        found: list[Observation] = []
        missing: list[Inconclusive] = []
        for device in points.devices:
            try:
                found += self.find(points, device, for_time)
            except Inconclusive as why:
                missing.append(why)
        if missing and not found:
            raise missing[0]
        return found

    def noisy(self, selections: Sequence[PointSelection]) -> Observation | None:
        """Return the first selected point that is left out because it is noisy."""
        noisy = (each for each in self.all if id(each.record) in self._noisy)
        return next((each for each in noisy if any(points.select(each.point) for points in selections)), None)


def too_noisy(noisy: Observation) -> Inconclusive:
    """Return the reason for an inconclusive verdict because of a noisy point."""
    by = "; ".join(disturbances(noisy.record))
    return Inconclusive("noisy", f"{noisy.point} is noisy: {by}; --include-noisy includes it")


def by_machine(found: Iterable[Observation]) -> dict[str, list[Observation]]:
    """Group by device and machine, such as `gpu of EPYC 9654, 4 CPUs`."""
    machines: dict[str, list[Observation]] = {}
    for each in found:
        machines.setdefault(f"{each.point.device} of {each.machine}", []).append(each)
    return machines


def by_setting(
    found: Iterable[Observation], points: PointSelection, *ignored: str
) -> dict[tuple[str, ...], list[Observation]]:
    """Group by what must be equal in points that are compared."""
    settings: dict[tuple[str, ...], list[Observation]] = {}
    for each in found:
        settings.setdefault(each.setting(points, *ignored), []).append(each)
    return settings


def differing(a: Sequence[Observation], b: Sequence[Observation], points: PointSelection) -> Inconclusive:
    """Return the reason why two sides without a common setting are not compared, with the axes that differ."""
    values_a, values_b = _values(a, points), _values(b, points)
    differences = [
        f"{axis} {_few(values_a.get(axis))} / {_few(values_b.get(axis))}"
        for axis in dict.fromkeys([*values_a, *values_b])
        if values_a.get(axis) != values_b.get(axis)
    ]
    sides = f"{a[0].point.device} / {b[0].point.device}"
    why = f"{points.benchmark} has different parameters on {sides}: {'; '.join(differences)}"
    return Inconclusive("other parameters", why)


def _values(found: Sequence[Observation], points: PointSelection) -> dict[str, list[str]]:
    values: dict[str, set[Scalar]] = {}
    for each in found:
        for axis, value in {"backend": each.point.backend or "none", **each.point.values}.items():
            if axis not in {*points.free, points.swept}:
                values.setdefault(axis, set()).add(value)
    return {axis: sorted(map(str, several)) for axis, several in values.items()}


def _few(values: Sequence[str] | None) -> str:
    return ", ".join(values[:LISTED]) + " …" * (len(values) > LISTED) if values else "default"
