"""How long points will take on this machine, by what they took before or by what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelbench.environment.differences import same_machine
from accelbench.errors import UserError, damage_met
from accelbench.execution.plan import discover
from accelbench.execution.store import RunInfo, RunStore, Settings
from accelbench.execution.suite import Suite
from accelbench.execution.time_left import Took
from accelbench.output.format import counted, seconds
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point

StoredRunInfo = tuple[RunStore, RunInfo]
"""A stored run with its `run.json`."""


@dataclass(frozen=True)
class Forecast:
    """How long points will take: by what the same ones took before, or else by what they declare."""

    known: int
    """The number of points that this machine has measured before."""
    known_s: float
    """The seconds that they took."""
    usual: int
    """The number of points that it has not, of a suite that was timed on two CPU cores."""
    usual_s: float
    """The seconds that these take there."""
    kernels: int
    """The number of other kernels that it has not."""
    kernels_s: float
    """The seconds of sampling that these are allowed."""
    trainings: int
    """The number of other trainings that it has not."""
    limits_s: float
    """The seconds after which all of those would be given up."""

    @property
    def sentence(self) -> str:
        """Return the estimate in words, with what it rests on."""
        parts = []
        if self.known:
            parts.append(
                f"{counted(self.known, 'point')} in about {seconds(self.known_s)}, by what they took here before"
            )
        if self.usual:
            new = f"{counted(self.usual, 'point')} that this machine has not measured yet"
            parts.append(f"{new} in about {seconds(self.usual_s)}, which is what they take on two CPU cores")
        if self.kernels:
            allowed = seconds(self.kernels_s)
            parts.append(f"{counted(self.kernels, 'kernel')} in about {allowed}, by the sampling time they are allowed")
        if self.trainings:
            parts.append(
                f"{counted(self.trainings, 'training')} that this machine has not measured yet, in less than "
                f"{seconds(self.limits_s)}, by the time limits that they declare"
            )
        return "estimate: " + ("; ".join(parts) or "nothing is left to measure")


def forecast(
    plan: Iterable[Point], settings: Settings, past: Mapping[str, Took], usual_s: float | None = None
) -> Forecast:
    """Return how long the points will take.

    `past` is what points took, by their names; `usual_s` is the seconds that a point of the suite takes on
    two CPU cores on average, where that is known of this device.
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
    """Return the seconds that each of so many points of the suite takes on two CPU cores; None where it is unknown."""
    return suite.minutes * 60 / points if suite and suite.minutes and device == "cpu" else None


def past_seconds(runs: Sequence[StoredRunInfo]) -> dict[str, Took]:
    """Return the seconds that each point took in the last of these runs that has it, without what is damaged."""
    found: dict[str, Took] = {}
    for store, _ in runs:
        with damage_met():
            try:
                for record in store.points():
                    if record.status == "measured":
                        found[str(record.point)] = Took.by(record)
            except (UserError, OSError):
                continue
    return found


def of_machine(stores: Sequence[RunStore], here: Environment) -> list[StoredRunInfo]:
    """Return the runs on this machine that can be read, the oldest first."""
    found = []
    for store in stores:
        try:
            info = store.info()
        except (UserError, OSError):
            continue
        if same_machine(info.environment, here):
            found.append((store, info))
    return sorted(found, key=lambda each: each[1].created)
