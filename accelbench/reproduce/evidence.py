"""The evidence for claims: the measured points of several runs, each run with its machine and its own ceilings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.history.fingerprint import fingerprint
from accelbench.report.stored_run import Run
from accelbench.reproduce.points import Points
from accelbench.reproduce.verdict import CannotTell
from profiling.analysis.course import disturbances
from profiling.records.point import Device, Scalar
from profiling.records.record import Record

Setting = tuple[str, ...]
"""What points share that are compared: the benchmark, the backend, and the value of each axis that has to be equal."""
MOST_TOLD = 3


@dataclass(frozen=True)
class Seen:
    """A record, and the run that it is of."""

    run: Run
    record: Record

    @property
    def machine(self) -> str:
        """Return the machine in words; runs of machines that are built alike count as of one."""
        return fingerprint(self.run.info)

    def setting(self, points: Points, *besides: str) -> Setting:
        """Return what must be equal in points that are compared; the swept and free axes, and these, may differ."""
        point, left_out = self.record.point, {*points.free, points.swept, *besides}
        values = [f"{axis}={value}" for axis, value in point.values.items() if axis not in left_out]
        return (point.benchmark, *filter(None, [point.backend]), *sorted(values))


@dataclass(frozen=True)
class Evidence:
    """The records of the runs that were given, in which the points that decide are found."""

    runs: tuple[Run, ...]
    even_if_disturbed: bool = False
    """Whether points that were disturbed decide, too."""

    @cached_property
    def seen(self) -> list[Seen]:
        """Return every record of every run."""
        return [Seen(run, record) for run in self.runs for record in run.records]

    @cached_property
    def _disturbed(self) -> set[int]:
        return {id(record) for run in self.runs for record in run.disturbed}

    def find(self, points: Points, device: Device, for_time: bool = True) -> list[Seen]:
        """Return the measured points that are asked for on that device; `CannotTell` where there are none.

        Those that were disturbed are left out, unless what they are asked for is no time.
        """
        there = [seen for seen in self.seen if seen.record.point.device == device]
        if not there:
            raise CannotTell("no such device", f"these runs have no {device}")
        asked = [seen for seen in there if points.ask_for(seen.record.point)]
        if not asked:
            raise CannotTell("no such point", f"no such point in these runs: {points} on {device}")
        measured = [seen for seen in asked if seen.record.status == "measured" and seen.record.timing]
        if not measured:
            raise CannotTell("not measured", f"{asked[0].record.point} {asked[0].record.status}: {_why(asked[0])}")
        if not for_time or self.even_if_disturbed:
            return measured
        quiet = [seen for seen in measured if id(seen.record) not in self._disturbed]
        if not quiet:
            raise was_disturbed(measured[0])
        return quiet

    def left_out(self, asked: Iterable[Points]) -> Seen | None:
        """Return the first point that is asked for and left out because it was disturbed; None where there is none."""
        several = list(asked)
        disturbed = () if self.even_if_disturbed else self._disturbed
        return next(
            (s for s in self.seen if id(s.record) in disturbed and any(p.ask_for(s.record.point) for p in several)),
            None,
        )

    def find_on_any(self, points: Points, for_time: bool = True) -> list[Seen]:
        """Return the measured points on all of the devices that are asked for; `CannotTell` where none has one."""
        found: list[Seen] = []
        first: CannotTell | None = None
        for device in points.devices:
            try:
                found += self.find(points, device, for_time)
            except CannotTell as why:
                first = first or why
        if first and not found:
            raise first
        return found


def was_disturbed(seen: Seen) -> CannotTell:
    """Return the reason why nothing is decided by a point: it was disturbed, and by what."""
    by = "; ".join(disturbances(seen.record))
    return CannotTell("disturbed", f"{seen.record.point} was disturbed: {by}; --even-if-disturbed decides all the same")


def by_machine(found: Iterable[Seen]) -> dict[str, list[Seen]]:
    """Return the points by the device and the machine that they were measured on: `gpu of EPYC 9654, 4 CPUs`."""
    machines: dict[str, list[Seen]] = {}
    for seen in found:
        machines.setdefault(f"{seen.record.point.device} of {seen.machine}", []).append(seen)
    return machines


def by_setting(found: Iterable[Seen], points: Points, *besides: str) -> dict[Setting, list[Seen]]:
    """Return the points by what must be equal where they are compared."""
    settings: dict[Setting, list[Seen]] = {}
    for seen in found:
        settings.setdefault(seen.setting(points, *besides), []).append(seen)
    return settings


def unlike(a: Sequence[Seen], b: Sequence[Seen], points: Points) -> CannotTell:
    """Return the reason why two sides without a common setting are not compared: the axes in which they differ."""
    values_a, values_b = _values(a, points), _values(b, points)
    told = [
        f"{axis} {_few(values_a.get(axis))} / {_few(values_b.get(axis))}"
        for axis in dict.fromkeys([*values_a, *values_b])
        if values_a.get(axis) != values_b.get(axis)
    ]
    sides = f"{a[0].record.point.device} / {b[0].record.point.device}"
    return CannotTell("other parameters", f"{points.benchmark} was not measured alike on {sides}: {'; '.join(told)}")


def _values(found: Sequence[Seen], points: Points) -> dict[str, list[str]]:
    """Return the values of each axis that must be equal, the backend among them."""
    values: dict[str, set[Scalar]] = {}
    for seen in found:
        point = seen.record.point
        for axis, value in {"backend": point.backend or "none", **point.values}.items():
            if axis not in {*points.free, points.swept}:
                values.setdefault(axis, set()).add(value)
    return {axis: sorted(map(str, several)) for axis, several in values.items()}


def _few(values: Sequence[str] | None) -> str:
    return ", ".join(values[:MOST_TOLD]) + " …" * (len(values) > MOST_TOLD) if values else "default"


def _why(seen: Seen) -> str:
    return seen.record.reason or "no reason was recorded"
