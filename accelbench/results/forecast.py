"""Estimated duration of points on this machine, from earlier runs or from their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelbench.environment.differences import same_machine
from accelbench.errors import UserError, collect_damage
from accelbench.execution.plan import discover
from accelbench.execution.store import RunInfo, RunStore, Settings
from accelbench.execution.suite import Suite
from accelbench.execution.time_left import WallTime
from accelbench.output.format import counted, read, seconds
from accelbench.profiling.machine.vendor_peaks import find_card
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Record
from accelbench.results.training_flops import training_flops

RECENT = 10
"""Number of latest runs of this machine that are read for the speed of training workloads."""
StoredRunInfo = tuple[RunStore, RunInfo]
"""A stored run with its `run.json`."""


SAMPLING_OVERHEAD_S = (1.0, 5.0)
"""Least and most seconds of a repetition besides sampling: start, imports, preparation and verification."""
FRAMEWORK_OVERHEAD_S = (5.0, 60.0)
"""The same for a point of a framework, which is imported, compiled and profiled."""
LEAST_KERNELS = 5
"""Minimum number of kernels measured here by which others are estimated."""
TRAINING_SHARES = (0.02, 0.6)
"""Shares of the device's float32 peak that training workloads reach (docs/measured.md)."""
CORE_PEAK = 100e9
"""Assumed float32 peak of a CPU core in FLOP/s, if this machine has no measured ceiling."""
OTHER_MODELS = 3.0
"""Factor by which a model may be slower or faster than the models that this machine has trained."""


@dataclass(frozen=True)
class TrainingSpeed:
    """Range of the FLOP/s that training workloads reach on a device, with its basis as text."""

    low: float
    high: float
    basis: str


@dataclass(frozen=True)
class ForecastPart:
    """Duration of points with a common basis."""

    what: str
    """Kind of the points: `new kernel`."""
    points: int
    low_s: float
    high_s: float
    basis: str

    def __str__(self) -> str:
        return f"{counted(self.points, self.what)} in {_range(self.low_s, self.high_s)} ({self.basis})"


@dataclass(frozen=True)
class Forecast:
    """Estimated duration of a plan: parts, each with its basis."""

    parts: tuple[ForecastPart, ...]

    @property
    def low_s(self) -> float:
        """Return the lower end in seconds."""
        return sum(part.low_s for part in self.parts)

    @property
    def high_s(self) -> float:
        """Return the upper end in seconds."""
        return sum(part.high_s for part in self.parts)

    @property
    def sentence(self) -> str:
        """Return the estimate as text, with its basis."""
        if not self.parts:
            return "estimate: nothing is left to measure"
        total = f"{_range(self.low_s, self.high_s)}: " * (len(self.parts) > 1)
        return f"estimate: {total}{'; '.join(map(str, self.parts))}"


def forecast(
    plan: Iterable[Point],
    settings: Settings,
    past: Mapping[str, WallTime],
    usual_s: float | None = None,
    speed: TrainingSpeed | None = None,
) -> Forecast:
    """Return the estimated duration of the points.

    `past` has the earlier durations by point name; `usual_s` is the mean duration of a point of the suite on two CPU
    cores, if known for this device; `speed` is the speed of training workloads on the device. A new point is estimated
    by other points of its benchmark or other kernels, by its model's FLOPs, or by its limits.
    """
    parts: dict[tuple[str, str], list[tuple[float, float]]] = {}
    kernels = [wall.wall_s for name, wall in past.items() if " backend=" not in name]

    def add(what: str, basis: str, low: float, high: float) -> None:
        parts.setdefault((what, basis), []).append((low, high))

    for point in plan:
        repetitions = settings.rounds_of(point)
        if str(point) in past:
            wall = past[str(point)].wall_s
            add("point", "measured here before", wall, wall)
        elif usual_s is not None:
            add("new point", "as on two CPU cores", usual_s, usual_s)
        elif like := _like(point, past):
            add("new point", "as other points of the same benchmarks here", min(like), max(like))
        elif point.backend is None and len(kernels) >= LEAST_KERNELS:
            add("new kernel", "as other kernels here", min(kernels), max(kernels))
        elif point.backend is None or "epochs" not in point.values:
            least, most = FRAMEWORK_OVERHEAD_S if point.backend else SAMPLING_OVERHEAD_S
            basis = f"start, and sampling of at most {seconds(settings.max_seconds)} per repetition"
            add("new sampled point", basis, repetitions * least, repetitions * (most + settings.max_seconds))
        else:
            limit = settings.time_limit_s or discover()[point.benchmark].time_limit_s
            flops, (least, most) = training_flops(point), FRAMEWORK_OVERHEAD_S
            if flops and speed:
                low, high = least + flops / speed.high, most + flops / speed.low
                basis = f"FLOPs of the models at {speed.basis}"
                add("new training workload", basis, repetitions * min(low, limit), repetitions * min(high, limit))
            else:
                add("new training workload", "at most the time limit", repetitions * least, repetitions * limit)
    return Forecast(
        tuple(
            ForecastPart(what, len(ranges), sum(low for low, _ in ranges), sum(high for _, high in ranges), basis)
            for (what, basis), ranges in parts.items()
        )
    )


def training_speed(runs: Sequence[StoredRunInfo], device: Device, here: Environment) -> TrainingSpeed:
    """Return the speed of training workloads on this machine.

    The basis is, in this order: the training workloads in these runs, their float32 ceiling, the vendor's peak of the
    GPU, and an assumed peak of the CPU cores.
    """
    trained: list[float] = []
    peaks: list[float] = []
    for record in _measured(runs[-RECENT:], device):
        rate = record.rate("flops") or 0.0
        if record.point.backend and "epochs" in record.point.values:
            trained += [rate] * bool(rate)
        elif record.ceiling and (record.bound.metric, record.bound.dtype, record.bound.cores) == _ARITHMETIC:
            peaks.append(rate)
    if trained:
        return _speed(min(trained) / OTHER_MODELS, max(trained) * OTHER_MODELS, "as other models here")
    low, high = TRAINING_SHARES
    if peaks:
        return _speed(low * max(peaks), high * max(peaks), "of the measured float32 peak")
    card = find_card(here.gpus[0].name) if device == "gpu" and here.gpus else None
    peak = card.flops.get("float32", {}).get("plain") if card else None
    if peak:
        return _speed(low * peak, high * peak, "of the vendor's float32 peak")
    peak = CORE_PEAK * (here.cpu.usable or 1)
    return _speed(low * peak, high * peak, f"of an assumed peak of {counted(here.cpu.usable or 1, 'CPU')}")


_ARITHMETIC = ("flops", "float32", "all")


def _speed(low: float, high: float, basis: str) -> TrainingSpeed:
    ends = f"{read(low, 'FLOP/s').quantity} to {read(high, 'FLOP/s').quantity}"
    return TrainingSpeed(low, high, f"{ends}, {basis}")


def _like(point: Point, past: Mapping[str, WallTime]) -> list[float]:
    """Return the durations of other points of the benchmark on the device and backend."""
    words = [point.benchmark, point.device, *([f"backend={point.backend}"] if point.backend else [])]
    return [wall.wall_s for name, wall in past.items() if name.split()[: len(words)] == words]


def _range(low_s: float, high_s: float) -> str:
    """Return a range of durations as text; a single one if its ends read the same."""
    low, high = seconds(low_s), seconds(high_s)
    return f"about {low}" if low == high else f"{low} to {high}"


def usual_seconds(suite: Suite | None, points: int, device: Device) -> float | None:
    """Return the mean seconds per point of the suite on two CPU cores; None if unknown."""
    return suite.minutes * 60 / points if suite and suite.minutes and device == "cpu" else None


def past_seconds(runs: Sequence[StoredRunInfo]) -> dict[str, WallTime]:
    """Return the duration of each point in the latest of these runs that measured it; corrupt runs are ignored."""
    return {str(record.point): WallTime.of(record) for record in _measured(runs)}


def _measured(runs: Sequence[StoredRunInfo], device: Device | None = None) -> Iterator[Record]:
    """Yield the measured records of the runs, of a device if it is given; corrupt runs are ignored."""
    for store, _ in runs:
        with collect_damage():
            try:
                found = [record for record in store.points() if record.status == "measured"]
            except (UserError, OSError):
                continue
        yield from (record for record in found if device in (None, record.point.device))


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
