"""Scaling of a training workload: its rate by number of replicas, and a prediction for larger clusters.

The prediction models the exchange as a ring all-reduce with 2 (n - 1) steps, each with Hockney's message time,
latency + bytes / bandwidth (R. Hockney, "The communication challenge for MPP", Parallel Computing 20 (1994); R. Thakur
et al., "Optimization of Collective Communication Operations in MPICH", IJHPCA 19 (2005)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.step import StepParts


@dataclass(frozen=True)
class ScalingStep:
    """Measurement with one number of replicas, compared with the smallest measured number."""

    replicas: int
    record: Record
    rate: float
    """The items per second; `rate_low` and `rate_high` are the ends of its interval."""
    rate_low: float
    rate_high: float
    speedup: float
    """The rate ÷ the rate of the fewest replicas; `speedup_low` and `speedup_high` combine both intervals."""
    speedup_low: float
    speedup_high: float
    efficiency: float
    """The speed-up ÷ the growth in replicas."""


@dataclass(frozen=True)
class Scaling:
    """One training workload on different numbers of replicas, all else equal."""

    benchmark: str
    device: str
    backend: str | None
    strategy: str | None
    """The strategy of the largest number of replicas."""
    weak: bool
    """Whether each replica has a batch of its own (weak scaling), or all share one (strong scaling)."""
    steps: tuple[ScalingStep, ...]


@dataclass(frozen=True)
class LatencyBandwidth:
    """Latency and inverse bandwidth of the steps of a ring all-reduce, fitted to measured all-reduces."""

    latency_s: float
    seconds_per_byte: float
    points: int
    """The number of all-reduces in the fit."""
    error: float
    """The largest relative difference between the model and a measurement."""

    def all_reduce_s(self, replicas: int, nbytes: float) -> float:
        steps = 2 * (replicas - 1)
        return steps * (self.latency_s + nbytes / replicas * self.seconds_per_byte)


@dataclass(frozen=True)
class PredictedScaling:
    """Predicted step time on a number of replicas, with the measured step time if there is one."""

    replicas: int
    step_s: float
    exchange_s: float
    measured_s: float | None

    @property
    def error(self) -> float | None:
        """Return the relative difference to the measured step time; None if it was not measured."""
        return None if self.measured_s is None else self.step_s / self.measured_s - 1


def trainings(records: Iterable[Record]) -> list[Record]:
    """Return the records of training workloads with timed steps and a number of items."""
    return [record for record in records if record.timing and record.timing.timer == "steps" and record.rate("items")]


def scalings(records: Iterable[Record]) -> list[Scaling]:
    """Return every training workload that was measured with at least two numbers of replicas.

    A single replica belongs to every strategy.
    """
    found: dict[tuple[tuple[object, ...], str, str | None], dict[int, Record]] = {}
    alone: dict[tuple[object, ...], Record] = {}
    for record in trainings(records):
        layout = record.layout
        if layout.computing_devices == 1:
            # A single replica is the same for weak and strong scaling, and for every strategy.
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
    """Return the key of a training workload without its layout."""
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
    """Return latency and bandwidth fitted to the all-reduces of a run; None for fewer than three.

    The fit minimises relative errors, so that all message sizes have the same weight.
    """
    import numpy as np

    points = [
        (record.layout.processes, record.work.all_reduced, record.timing.summary.median)
        for record in records
        if record.status == "measured" and record.timing and record.work and record.work.all_reduced
    ]
    if len(points) < 3:
        return None
    steps = np.array([2.0 * (n - 1) for n, _, _ in points])
    seconds = np.array([s for _, _, s in points])
    moved = steps * np.array([size / n for n, size, _ in points])
    latency, per_byte = _fit(seconds, steps, moved)
    modelled = steps * latency + moved * per_byte
    error = float(np.max(np.abs(modelled / seconds - 1)))
    return LatencyBandwidth(latency, per_byte, len(points), error)


def _fit(seconds: Any, first: Any, second: Any) -> tuple[float, float]:
    """Return a, b ≥ 0 that fit seconds ≈ a·first + b·second by least squares of the relative errors."""
    import numpy as np
    from scipy.optimize import nnls

    factors, _ = nnls(np.column_stack([first / seconds, second / seconds]), np.ones(len(seconds)))
    return float(factors[0]), float(factors[1])


def exchange_over_model(scaling: Scaling, model: LatencyBandwidth) -> float | None:
    """Return the isolated exchange time on the most replicas ÷ the model's time for its bytes; None without step parts.

    An engine that sends gradients in many small messages, or copies them, takes a multiple of the model's time.
    """
    largest = _largest_with_parts(scaling)
    if largest is None:
        return None
    base, parts = largest
    return parts.exchange_s["alone"] / model.all_reduce_s(base, parts.bytes)


def predict(scaling: Scaling, model: LatencyBandwidth, counts: Sequence[int]) -> list[PredictedScaling]:
    """Return the predicted step times for these numbers of replicas; empty without step parts.

    In weak scaling, the compute time of a replica is constant; in strong scaling, a part of it is divided by the number
    of replicas, as fitted to the measured steps (G. Amdahl, "Validity of the single processor approach…", AFIPS 1967).
    The exchange time follows the model, scaled to the isolated exchange of the largest measured step. The share of the
    exchange that is overlapped with compute is constant.
    """
    largest, over_model = _largest_with_parts(scaling), exchange_over_model(scaling, model)
    if largest is None or over_model is None:
        return []
    _, parts = largest
    measured = {step.replicas: step.record for step in scaling.steps}
    exposed = parts.exposed_s / max(parts.exposed_s + parts.hidden_s, 1e-12)
    fixed, divided = _computing(scaling)
    predictions = []
    for count in counts:
        exchange = over_model * model.all_reduce_s(count, parts.bytes)
        step = fixed + divided / count + (parts.wait_s + exposed * exchange if count > 1 else 0.0)
        record = measured.get(count)
        timing = record.timing if record else None
        predictions.append(PredictedScaling(count, step, exchange, timing.summary.median if timing else None))
    return predictions


def _computing(scaling: Scaling) -> tuple[float, float]:
    """Return the constant part of a step's compute, launch and input time, and the part divided by all replicas."""
    import numpy as np

    found = {step.replicas: p.own_s for step in scaling.steps if (p := step.record.parts)}
    if scaling.weak:
        return found[max(found)], 0.0
    for step in scaling.steps:
        if step.replicas == 1 and step.record.timing:
            found[1] = step.record.timing.summary.median  # without exchange
    counts, seconds = np.array(list(found), dtype=float), np.array(list(found.values()))
    return _fit(seconds, np.ones(len(found)), 1 / counts) if len(found) > 1 else (0.0, float((counts * seconds)[0]))


def _largest_with_parts(scaling: Scaling) -> tuple[int, StepParts] | None:
    """Return the largest number of replicas with step parts, and the parts."""
    found = [(step.replicas, step.record.parts) for step in scaling.steps if step.record.parts]
    return max(found, key=lambda each: each[0], default=None)
