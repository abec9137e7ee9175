"""Measurement of a training workload: train, evaluate, verify, then profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.profiling.benchmark import Training
from accelbench.profiling.host.steps_cpu import StepsCpu
from accelbench.profiling.machine.other_processes import open_blocks
from accelbench.profiling.measure.flop_counts.framework import framework_metrics, with_bytes
from accelbench.profiling.measure.observer import Observer
from accelbench.profiling.measure.profiled_steps import KeptFolders, profile_training
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.bottleneck import Bottleneck, CpuTime
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Profile, Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import Work
from accelbench.profiling.telemetry.noise import stopped
from accelbench.profiling.timing.exchange import measure_isolated
from accelbench.profiling.timing.host import PhaseClock
from accelbench.profiling.timing.steps import measure_training
from accelbench.profiling.timing.verification import outcome_of
from accelbench.profiling.trace.scalars import Readings, record_scalars, write_scalars


def train(
    task: Training,
    point: Point,
    phase: PhaseClock,
    observer: Observer,
    keep: KeptFolders | None,
    publish: Callable[[dict[str, Any]], None],
    brief_s: float | None = None,
    patience_s: float = 0.0,
) -> dict[str, Any]:
    """Train, evaluate and verify, then profile additional steps; return the fields of the record.

    `publish` is called with the measured fields before profiling, since a profiler can crash the process. With
    `brief_s`, the training run is not profiled and may end after that many seconds of steps; with several ranks it
    never ends early, since the ranks would not agree on the last step. If too few blocks of steps are clean, further
    steps are trained for at most `patience_s`.
    """
    cpu, is_single = StepsCpu(), world().size == 1
    with observer.place, observer:
        # What disturbs the other ranks, for which the steps of this one wait, is not known here.
        log = open_blocks(launching=point.device != "cpu") if is_single else None
        training = measure_training(
            task, cpu.callback(), seconds=brief_s if is_single else None, log=log, patience_s=patience_s
        )
    phase.seconds |= training.phases
    timing, shared = training.timing, observer.sampler.shared_times()
    if point.device != "cpu" and shared:
        timing = training.without(shared)
    causes = timing.causes
    observed = observer.result(by_sample=causes is not None)
    if causes and not any(causes.stopped_s):
        telemetry = observed["telemetry"]
        observed["noise"] += stopped(telemetry, telemetry.counters["wall_s"], 1)
    batch = (task.layout and task.layout.batch) or int(task.work.items or 0)
    work = with_bytes(task.work, task.model, batch)
    metrics = training.metrics | framework_metrics(task.model, work, batch)
    metrics |= energy_metrics(observed["telemetry"].counters.get(f"{point.device}.energy_j"), training.steps, work)
    fields = observed | outcome_of(training.verification)
    fields |= {"work": work, "data": task.data, "qualities": list(task.qualities)}
    fields |= {"metrics": metrics, "curves": training.curves, "confusion": training.confusion}
    if training.verification.passed:
        fields["timing"] = timing
    if training.verification.passed and brief_s is None:
        publish(fields)
        with phase("profile_s"):
            fields["profile"] = _profile(task, point, timing, cpu.result(), keep)
            fields["seen"] = measure_isolated(task)
    return fields


def energy_metrics(energy_j: float | None, steps: int, work: Work) -> dict[str, Metric]:
    """Return the energy of the device (GPU or CPU packages) per step and per 1000 items."""
    if energy_j is None:
        return {}
    metrics = {"energy_per_step": Metric(energy_j / steps, "J")}
    if work.items:
        metrics[f"energy_per_1000_{work.item}"] = Metric(1e3 * energy_j / (steps * work.items), "J")
    return metrics


def with_scalars(record: Record, readings: Readings, keep: KeptFolders | None) -> Record:
    """Write the record's curves as TensorBoard scalars next to its trace, if kept; note a failure in the record."""
    if not (keep and keep.trace and record.profile):
        return record
    try:
        write_scalars(keep.run / keep.trace, record_scalars(record, readings), record.started.timestamp())
    except (OSError, ImportError) as error:  # a full disk, or TensorBoard is not installed
        missing = [*record.profile.missing, f"scalars for TensorBoard: {error}"]
        return record.model_copy(update={"profile": record.profile.model_copy(update={"missing": missing})})
    return record


def _profile(task: Training, point: Point, timing: Timing, cpu: CpuTime | None, keep: KeptFolders | None) -> Profile:
    """Return the profile; if a profiler fails, the reason replaces the profile."""
    try:
        return profile_training(task, point, timing, cpu, keep)
    except Exception as error:  # noqa: BLE001 - any error of profilers and frameworks
        return Profile(bottleneck=Bottleneck(reason=f"profiling failed: {type(error).__name__}: {error}"))
