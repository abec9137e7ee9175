"""Estimated duration of points on this machine, from earlier runs or from their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelbench.environment.differences import same_machine
from accelbench.errors import UserError, collect_damage
from accelbench.execution.plan import discover
from accelbench.execution.store import RunInfo, RunStore, Settings
from accelbench.execution.suite import Suite
from accelbench.execution.time_left import WallTime
from accelbench.output.format import counted, seconds
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point

StoredRunInfo = tuple[RunStore, RunInfo]
"""A stored run with its `run.json`."""


@dataclass(frozen=True)
class Forecast:
    """Estimated duration: from earlier measurements of the same points, otherwise from their declarations."""

    known: int
    """Number of points that this machine has measured before."""
    known_s: float
    """Their duration in seconds."""
    usual: int
    """Number of new points of a suite with a known duration on two CPU cores."""
    usual_s: float
    """Their duration in seconds on two CPU cores."""
    kernels: int
    """Number of other new kernels."""
    kernels_s: float
    """Their maximum sampling time in seconds."""
    trainings: int
    """Number of other new training workloads."""
    limits_s: float
    """Sum of their time limits in seconds."""

    @property
    def sentence(self) -> str:
        """Return the estimate as text, with its basis."""
        parts = []
        if self.known:
            parts.append(f"{counted(self.known, 'point')} in about {seconds(self.known_s)} (measured here before)")
        if self.usual:
            parts.append(f"{counted(self.usual, 'new point')} in about {seconds(self.usual_s)} (as on two CPU cores)")
        if self.kernels:
            sampling = seconds(self.kernels_s)
            parts.append(f"{counted(self.kernels, 'new kernel')} in about {sampling} (maximum sampling time)")
        if self.trainings:
            parts.append(
                f"{counted(self.trainings, 'new training workload')} in at most {seconds(self.limits_s)} (time limit)"
            )
        return "estimate: " + ("; ".join(parts) or "nothing is left to measure")


def forecast(
    plan: Iterable[Point], settings: Settings, past: Mapping[str, WallTime], usual_s: float | None = None
) -> Forecast:
    """Return the estimated duration of the points.

    `past` has the earlier durations by point name; `usual_s` is the mean duration of a point of the suite on two CPU
    cores, if known for this device.
    """
    known: list[float] = []
    usual, kernels, limits = 0, 0, []
    for point in plan:
        if str(point) in past:
            known.append(past[str(point)].wall_s)
        elif usual_s is not None:
            usual += 1
        elif point.backend is None:
            kernels += 1
        else:
            limits.append(settings.time_limit_s or discover()[point.benchmark].time_limit_s)
    return Forecast(
        known=len(known),
        known_s=sum(known),
        usual=usual,
        usual_s=usual * (usual_s or 0),
        kernels=kernels,
        kernels_s=kernels * settings.max_seconds,
        trainings=len(limits),
        limits_s=sum(limits),
    )


def usual_seconds(suite: Suite | None, points: int, device: Device) -> float | None:
    """Return the mean seconds per point of the suite on two CPU cores; None if unknown."""
    return suite.minutes * 60 / points if suite and suite.minutes and device == "cpu" else None


def past_seconds(runs: Sequence[StoredRunInfo]) -> dict[str, WallTime]:
    """Return the duration of each point in the latest of these runs that measured it; corrupt runs are ignored."""
    found: dict[str, WallTime] = {}
    for store, _ in runs:
        with collect_damage():
            try:
                for record in store.points():
                    if record.status == "measured":
                        found[str(record.point)] = WallTime.of(record)
            except (UserError, OSError):
                continue
    return found


def of_machine(stores: Sequence[RunStore], here: Environment) -> list[StoredRunInfo]:
    """Return the readable runs of this machine, oldest first."""
    found = []
    for store in stores:
        try:
            info = store.info()
        except (UserError, OSError):
            continue
        if same_machine(info.environment, here):
            found.append((store, info))
    return sorted(found, key=lambda each: each[1].created)
