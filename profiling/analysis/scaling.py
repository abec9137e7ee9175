"""Scaling of a training workload: its rate by number of replicas, and a prediction for larger clusters.

The prediction takes an exchange to be Hockney's model of a message, latency + bytes / bandwidth, in each of the
2 (n - 1) turns of a ring all-reduce (R. Hockney, "The communication challenge for MPP", Parallel Computing 20 (1994);
R. Thakur et al., "Optimization of Collective Communication Operations in MPICH", IJHPCA 19 (2005)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.step import StepParts


@dataclass(frozen=True)
class ScalingStep:
    """One measured number of replicas: items per second, and what that is beside the smallest number measured."""

    replicas: int
    record: Record
    rate: float
    """The items per second; `rate_low` and `rate_high` are the ends of its interval."""
    rate_low: float
    rate_high: float
    speedup: float
    """The rate over that of the fewest replicas measured; `low` and `high` are the worst and best of both intervals."""
    speedup_low: float
    speedup_high: float
    efficiency: float
    """The speed-up over the growth in replicas."""


@dataclass(frozen=True)
class Scaling:
    """One training on growing numbers of replicas, all else alike."""

    benchmark: str
    device: str
    backend: str | None
    strategy: str | None
    """The engine of the largest number of replicas."""
    weak: bool
    """Whether each replica has a batch of its own, or all share one."""
    steps: tuple[ScalingStep, ...]


@dataclass(frozen=True)
class LatencyBandwidth:
    """The latency and the bandwidth of the ring's turns, fitted to measured all-reduces."""

    latency_s: float
    seconds_per_byte: float
    points: int
    """The number of all-reduces that it was fitted to."""
    error: float
    """The largest relative difference between the model and what was measured."""

    def all_reduce_s(self, replicas: int, nbytes: float) -> float:
        turns = 2 * (replicas - 1)
        return turns * (self.latency_s + nbytes / replicas * self.seconds_per_byte)


@dataclass(frozen=True)
class PredictedScaling:
    """A step on a number of replicas by the model; a prediction, checked where that number was measured."""

    replicas: int
    step_s: float
    exchange_s: float
    measured_s: float | None

    @property
    def error(self) -> float | None:
        """Return the relative difference to what was measured."""
        return None if self.measured_s is None else self.step_s / self.measured_s - 1


def trainings(records: Iterable[Record]) -> list[Record]:
    """Return the records of trainings whose steps were measured and counted in items."""
    return [record for record in records if record.timing and record.timing.timer == "steps" and record.rate("items")]


def scalings(records: Iterable[Record]) -> list[Scaling]:
    """Return every training that was measured on at least two numbers of replicas.

    The strategy of a single replica, `none` or that of the others, does not tell it from them.
    """
    found: dict[tuple[tuple[object, ...], str, str | None], dict[int, Record]] = {}
    alone: dict[tuple[object, ...], Record] = {}
    for record in trainings(records):
        layout = record.layout
        if layout.computing_devices == 1:
            # A replica by itself is the same for weak and strong scaling, and for every strategy.
            alone.setdefault(training_of(record), record)
        found.setdefault((training_of(record), layout.scaling, layout.strategy), {})[layout.computing_devices] = record
    result = []
    for (training, scaling, strategy), by_count in found.items():
        if training in alone:
            by_count = {1: alone[training]} | by_count
        if len(by_count) > 1:
            point = by_count[max(by_count)].point
            steps = _steps(by_count)
            result.append(Scaling(point.benchmark, point.device, point.backend, strategy, scaling == "weak", steps))
    return result


def training_of(record: Record) -> tuple[object, ...]:
    """Return what trainings have in common that differ in their layout at most."""
    point, layout = record.point, record.layout
    params = sorted((axis, value) for axis, value in point.params.items() if axis not in layout.axes)
    return (point.benchmark, point.device, point.backend, layout.input_workers, *params)


def _steps(by_count: Mapping[int, Record]) -> tuple[ScalingStep, ...]:
    counts = sorted(by_count)
    least = counts[0]
    rates = {count: rate for count in counts if (rate := by_count[count].rate_interval("items"))}
    base, base_low, base_high = rates[least]
    return tuple(
        ScalingStep(
            replicas=count,
            record=by_count[count],
            rate=rate,
            rate_low=low,
            rate_high=high,
            speedup=rate / base,
            speedup_low=low / base_high,
            speedup_high=high / base_low,
            efficiency=rate / base * least / count,
        )
        for count, (rate, low, high) in rates.items()
    )


def fit_latency_bandwidth(records: Iterable[Record]) -> LatencyBandwidth | None:
    """Return the ring's latency and bandwidth by the all-reduces measured in the run; None of fewer than three.

    By the relative errors: every message size counts alike.
    """
    import numpy as np

    points = [
        (record.layout.processes, record.work.all_reduced, record.timing.summary.median)
        for record in records
        if record.status == "measured" and record.timing and record.work and record.work.all_reduced
    ]
    if len(points) < 3:
        return None
    turns = np.array([2.0 * (n - 1) for n, _, _ in points])
    seconds = np.array([s for _, _, s in points])
    moved = turns * np.array([size / n for n, size, _ in points])
    latency, per_byte = _fit(seconds, turns, moved)
    modelled = turns * latency + moved * per_byte
    error = float(np.max(np.abs(modelled / seconds - 1)))
    return LatencyBandwidth(latency, per_byte, len(points), error)


def _fit(seconds: Any, first: Any, second: Any) -> tuple[float, float]:
    """Return the two factors, not negative, with which the columns add up to the seconds with least relative errors."""
    import numpy as np
    from scipy.optimize import nnls

    factors, _ = nnls(np.column_stack([first / seconds, second / seconds]), np.ones(len(seconds)))
    return float(factors[0]), float(factors[1])


def exchange_over_model(scaling: Scaling, model: LatencyBandwidth) -> float | None:
    """Return the exchange alone on the most replicas measured, over what the model says of these bytes.

    An engine that sends its gradients in many small messages, or copies them, takes a multiple of the model's time.
    None where no step was taken apart.
    """
    taken = _taken_apart(scaling)
    if taken is None:
        return None
    base, parts = taken
    return parts.exchange_s["alone"] / model.all_reduce_s(base, parts.bytes)


def predict(scaling: Scaling, model: LatencyBandwidth, counts: Sequence[int]) -> list[PredictedScaling]:
    """Return the step on these numbers of replicas; nothing where no step was taken apart.

    What a replica computes stays, in weak scaling; in strong scaling a part of it is shared out, as far as the measured
    steps show (G. Amdahl, "Validity of the single processor approach…", AFIPS 1967). The exchange grows as the model's
    does, from what it took alone in the largest measured step, and as much of it is hidden behind computing.
    """
    taken, over_model = _taken_apart(scaling), exchange_over_model(scaling, model)
    if taken is None or over_model is None:
        return []
    _, parts = taken
    measured = {step.replicas: step.record for step in scaling.steps}
    exposed = parts.exposed_s / max(parts.exposed_s + parts.hidden_s, 1e-12)
    fixed, shared_out = _computing(scaling)
    predictions = []
    for count in counts:
        exchange = over_model * model.all_reduce_s(count, parts.bytes)
        step = fixed + shared_out / count + (parts.wait_s + exposed * exchange if count > 1 else 0.0)
        record = measured.get(count)
        timing = record.timing if record else None
        predictions.append(PredictedScaling(count, step, exchange, timing.summary.median if timing else None))
    return predictions


def _computing(scaling: Scaling) -> tuple[float, float]:
    """Return the seconds of a step, its input's too, that every replica takes, and those that all share out."""
    import numpy as np

    found = {step.replicas: p.own_s for step in scaling.steps if (p := step.record.parts)}
    if scaling.weak:
        return found[max(found)], 0.0
    for step in scaling.steps:
        if step.replicas == 1 and step.record.timing:
            found[1] = step.record.timing.summary.median  # it exchanges nothing
    counts, seconds = np.array(list(found), dtype=float), np.array(list(found.values()))
    return _fit(seconds, np.ones(len(found)), 1 / counts) if len(found) > 1 else (0.0, float((counts * seconds)[0]))


def _taken_apart(scaling: Scaling) -> tuple[int, StepParts] | None:
    """Return the largest number of replicas whose step was taken apart, and its parts."""
    taken = [(step.replicas, step.record.parts) for step in scaling.steps if step.record.parts]
    return max(taken, key=lambda each: each[0], default=None)
