"""One point from its declaration to its record: prepare, first call, verify, warm up, measure."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from profiling.analysis.roofline import SHARED_CORES, devices_used
from profiling.benchmark import Benchmark, Serving, Skip, Task, Training
from profiling.flop_counts.framework import framework_metrics, with_bytes
from profiling.flop_counts.processor import NotCountable
from profiling.machine.devices import device_kind
from profiling.machine.noise import clock_flags, noise_flags
from profiling.machine.peaks import peak
from profiling.machine.telemetry import TelemetrySampler
from profiling.profiled_steps import Keep, processor_metrics, profile_training
from profiling.ranks.world import world
from profiling.records.bottleneck import Bottleneck
from profiling.records.environment import Environment
from profiling.records.layout import Layout
from profiling.records.peak import Peak
from profiling.records.point import Device, Point
from profiling.records.quality import Metric, Verification
from profiling.records.record import Profile, Record
from profiling.records.telemetry import Telemetry
from profiling.records.timing import Phases
from profiling.records.work import Bound, Work
from profiling.timing.exchange import see_apart
from profiling.timing.host import soak
from profiling.timing.steps import measure_training
from profiling.trace.scalars import Readings, record_scalars, write_scalars

TRACEBACK_LINES = 30

OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError", "ResourceExhaustedError", "_ArrayMemoryError")
"""What Python, PyTorch and CuPy, TensorFlow, and NumPy raise."""

Outcome = dict[str, Any]
"""Fields of a Record."""


class PhaseClock:
    """Wall seconds spent in each phase, by the field names of `Phases`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begin


def measure(
    benchmark: Benchmark, point: Point, environment: Environment, max_seconds: float, keep: Keep | None = None
) -> Record:
    """Measure one point; whatever goes wrong is in the record, and only Ctrl-C and death are not.

    `max_seconds` bounds the sampling of a kernel; a training experiment runs for its epochs, and is then profiled:
    `keep` says what of that is kept.
    """
    started, begin, phase = datetime.now(UTC), perf_counter(), PhaseClock()
    declared = benchmark.declared(point)
    bound: Bound = declared["bound"]
    readings: Readings = {}
    try:
        with phase("prepare_s"):
            task = benchmark.prepare(point)
        if isinstance(task, Serving):
            with phase("measure_s"):
                task.serve()
            outcome: Outcome = {"status": "measured"}
        else:
            layout: Layout = declared["layout"]
            declared["layout"] = layout = replace(task.layout, axes=layout.axes) if task.layout else layout
            if isinstance(task, Training):
                sampler = telemetry_sampler(point, environment, layout)
                outcome = _train(task, point, environment, bound.dtype, phase, sampler, keep)
                readings = sampler.series(begin)
            else:
                outcome = _sample(task, point, environment, layout, phase, max_seconds)
            if bound.figure:
                kept = kept_to_cpus(point, environment)
                cores = len(kept) if kept else None
                one = peak(environment, point.device, str(bound.dtype), bound.figure, task.work.unit_kind, cores)
                outcome["peak"] = peak_of_all(one, point.device, layout)
    except Skip as skip:
        outcome = {"status": "skipped", "reason": str(skip)}
    except Exception as error:  # noqa: BLE001 - whatever a benchmark does wrong is that point's failed record
        outcome = {
            "status": "failed",
            "reason": " ".join(f"{type(error).__name__}: {error}".split()) + _memory_left(error, point.device),
            "output_tail": traceback.format_exc().splitlines()[-TRACEBACK_LINES:],
        }
    record = Record(
        point=point,
        started=started,
        elapsed_s=perf_counter() - begin,
        phases=Phases(**phase.seconds),
        **declared,
        **outcome,
    )
    return _with_scalars(record, readings, keep) if keep and keep.trace and record.profile else record


def _with_scalars(record: Record, readings: Readings, keep: Keep) -> Record:
    """Write the record's curves beside its trace; a full disk, or that TensorBoard is not here, is noted."""
    assert record.profile is not None
    try:
        write_scalars(keep.run / str(keep.trace), record_scalars(record, readings), record.started.timestamp())
    except (OSError, ImportError) as error:
        missing = [*record.profile.missing, f"scalars for TensorBoard: {error}"]
        profile = record.profile.model_copy(update={"missing": missing})
        return record.model_copy(update={"profile": profile})
    return record


def _sample(
    task: Task, point: Point, environment: Environment, layout: Layout, phase: PhaseClock, max_seconds: float
) -> Outcome:
    if task.together and world().rank > 0:
        with phase("measure_s"):
            task.together.follow()
        return {"status": "measured", "work": task.work}
    try:
        return _lead(task, point, environment, layout, phase, max_seconds)
    finally:
        if task.together:
            task.together.finish()


def _lead(
    task: Task, point: Point, environment: Environment, layout: Layout, phase: PhaseClock, max_seconds: float
) -> Outcome:
    run, time = device_kind(point.device).timer(task)
    # Started here, the process that reads the sensors is ready by the time the task is warm.
    with closing(telemetry_sampler(point, environment, layout)) as sampler:
        with phase("first_call_s"):
            run()
        with phase("verify_s"):
            verification = task.verify()
        if not verification.passed:
            return _wrong_answer(verification) | {"work": task.work}
        with phase("warmup_s"):
            soak(run)
        with sampler, phase("measure_s"):
            timing = time(max_seconds)
    metrics = task.metrics(timing.summary.median) if task.metrics else {}
    observed = _observed(sampler, point, environment)
    return observed | {
        "status": "measured",
        "noise": observed["noise"] + clock_flags(timing),
        "work": task.work,
        "verification": verification,
        "timing": timing,
        "metrics": metrics,
    }


def _train(
    task: Training,
    point: Point,
    environment: Environment,
    dtype: str | None,
    phase: PhaseClock,
    sampler: TelemetrySampler,
    keep: Keep | None,
) -> Outcome:
    with sampler:
        training = measure_training(task)
    phase.seconds |= training.phases
    if not training.verification.passed:
        outcome = _wrong_answer(training.verification)
    else:
        outcome = {"status": "measured", "verification": training.verification, "timing": training.timing}
    observed = _observed(sampler, point, environment)
    batch = (task.layout and task.layout.batch) or int(task.work.items or 0)
    work = with_bytes(task.work, task.model, batch)
    metrics = training.metrics | framework_metrics(task.model, work, batch)
    metrics |= energy_metrics(observed["telemetry"].counters.get(f"{point.device}.energy_j"), training.steps, work)
    fields = {
        "work": work,
        "data": task.data,
        "qualities": list(task.qualities),
        "metrics": metrics,
        "curves": training.curves,
    }
    if training.verification.passed:
        with phase("profile_s"):
            step_s = training.timing.summary.median
            profile = _profile(task, point, step_s, observed["telemetry"], keep)
            fields["profile"] = _with_processor_flops(profile, metrics, task, point, dtype, step_s)
            fields["seen"] = see_apart(task)
    return observed | outcome | fields


def peak_of_all(one: Peak, device: Device, layout: Layout) -> Peak:
    """The peak of all devices that the point uses, by that of one; null for a CPU that several processes share."""
    if one.value is None:
        return one
    count = devices_used(device, layout)
    return (
        Peak(value=None, reason=SHARED_CORES) if count is None else one.model_copy(update={"value": one.value * count})
    )


def energy_metrics(energy_j: float | None, steps: int, work: Work) -> dict[str, Metric]:
    """The energy of a training per step and per thousand items: the GPU's, or that of the CPU's packages."""
    if energy_j is None:
        return {}
    metrics = {"energy_per_step": Metric(energy_j / steps, "J")}
    if work.items:
        metrics[f"energy_per_1000_{work.item}"] = Metric(1e3 * energy_j / (steps * work.items), "J")
    return metrics


def _profile(task: Training, point: Point, step_s: float, telemetry: Telemetry, keep: Keep | None) -> Profile:
    """What holds the training back; a profiler that breaks costs the profile, never the measurement."""
    try:
        return profile_training(task, point, step_s, telemetry, keep)
    except Exception as error:  # noqa: BLE001 - whatever profilers and frameworks raise
        return Profile(bottleneck=Bottleneck(reason=f"profiling failed: {type(error).__name__}: {error}"))


def _with_processor_flops(
    profile: Profile, metrics: dict[str, Metric], task: Training, point: Point, dtype: str | None, step_s: float
) -> Profile:
    """Add a CPU's own count of a step's operations to the metrics; the profile says why there is none."""
    if point.device != "cpu" or world().size > 1:
        return profile
    try:
        metrics.update(processor_metrics(task, dtype, step_s))
    except Exception as error:  # noqa: BLE001 - whatever the training raises when it is trained once more
        said = str(error) if isinstance(error, NotCountable) else f"{type(error).__name__}: {error}"
        return profile.model_copy(update={"missing": [*profile.missing, f"the CPU's own count of FLOPs: {said}"]})
    return profile


def _memory_left(error: Exception, device: Device) -> str:
    """Where memory ran out, how much is free: the error itself says what was asked."""
    if type(error).__name__ not in OUT_OF_MEMORY and "RESOURCE_EXHAUSTED" not in str(error):
        return ""
    left = device_kind(device).memory_left()
    return f" ({left})" if left else ""


def _observed(sampler: TelemetrySampler, point: Point, environment: Environment) -> Outcome:
    telemetry, kept = sampler.result(), kept_to_cpus(point, environment)
    cpus, wall_s = environment.cpu.logical, telemetry.counters["wall_s"]
    flags = noise_flags(telemetry, wall_s, cpus, len(kept) if kept else None, world().local_size)
    return {"telemetry": telemetry, "noise": flags}


def telemetry_sampler(point: Point, environment: Environment, layout: Layout) -> TelemetrySampler:
    """What observes the machine while the point is measured, from CPUs that the point leaves free, if it leaves any."""
    kept, there = kept_to_cpus(point, environment), environment.cpu.affinity
    others = sorted(set(there or []) - set(kept or [])) if world().local_size == 1 else None
    return TelemetrySampler(point.device, cpus=kept, place=others or kept or there, cards=layout.devices)


def kept_to_cpus(point: Point, environment: Environment) -> list[int] | None:
    """The CPUs of a point that was to use `host_cores` of the host's only, those of the lowest numbers; None for all.

    The process's own mask does not tell: it is that of one thread, which an OpenMP library may have bound to one CPU.
    It does of a rank beside others of its host: what those use, who measure the same point, does not disturb it.
    """
    if world().local_size > 1 and hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    there, cores = environment.cpu.affinity, point.host_cores
    return there[:cores] if cores is not None and there is not None and cores < len(there) else None


def _wrong_answer(verification: Verification) -> Outcome:
    if verification.error is not None:
        detail = f"error {verification.error:.3g}, tolerated {verification.tolerance:.3g}"
    else:
        detail = f"expected {verification.expected}, found {verification.found}"
    return {
        "status": "failed",
        "reason": f"wrong answer: {verification.method}: {detail}",
        "verification": verification,
    }
