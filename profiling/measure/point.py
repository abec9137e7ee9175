"""Measurement of one point: prepare, first call, verify, warm up, measure."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from pydantic import ValidationError

from accelbench.profiling.benchmark import Benchmark, Serving, Skip, Task, Training
from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.limiting_settings import limiting_settings
from accelbench.profiling.measure.compilations import JaxCompilations
from accelbench.profiling.measure.observer import Observer
from accelbench.profiling.measure.profiled_steps import KeptFolders
from accelbench.profiling.measure.training import train, with_scalars
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import first_fault, readable
from accelbench.profiling.records.timing import Phases, Timing
from accelbench.profiling.telemetry.noise import clock_flags, waits_for_itself
from accelbench.profiling.timing.host import PATIENCE_SHARE, PhaseClock, soak, without_causes, without_shared
from accelbench.profiling.timing.verification import outcome_of
from accelbench.profiling.trace.scalars import Readings

TRACEBACK_LINES = 30
OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError", "ResourceExhaustedError", "_ArrayMemoryError")
"""Out-of-memory errors of Python, PyTorch and CuPy, TensorFlow, and NumPy."""
Outcome = dict[str, Any]
"""The measured fields of a record."""


def measure(
    benchmark: Benchmark,
    point: Point,
    environment: Environment,
    max_seconds: float,
    keep: KeptFolders | None = None,
    brief: bool = False,
    publish: Callable[[Record], None] | None = None,
    patience_s: float | None = None,
) -> Record:
    """Measure one point and return its record; every exception except KeyboardInterrupt becomes a failed record.

    `max_seconds` limits the sampling of a kernel. If too few samples of a kernel, or blocks of training steps, are
    clean, the measurement continues for at most `patience_s` (default: half of `max_seconds`). A training workload runs
    for its epochs and is then profiled: `keep` has the folders for the profile, and `publish` is called with the record
    before profiling. With `brief`, a training workload is not profiled and may end after `max_seconds`; its quality is
    measured in another repetition.
    """
    started, begin, phase = datetime.now(UTC), perf_counter(), PhaseClock()
    declared = benchmark.declared(point)
    readings: Readings = {}

    def record(outcome: Outcome) -> Record:
        elapsed_s, phases = max(0.0, perf_counter() - begin), Phases(**phase.seconds)
        return Record(point=point, started=started, elapsed_s=elapsed_s, phases=phases, **declared, **outcome)

    try:
        with phase("prepare_s"):
            require_vendor(benchmark, point)
            task = benchmark.prepare(point)
        if isinstance(task, Serving):
            with phase("measure_s"):
                task.serve()
            outcome: Outcome = {"status": "measured"}
        elif isinstance(task, Task) and task.together and world().rank > 0:
            with phase("measure_s"):
                task.together.follow()
            outcome = {"status": "measured", "work": task.work}
        else:
            declared["layout"] = layout = _layout(declared["layout"], task.layout)
            cards = task.cards if isinstance(task, Task) else None
            with closing(Observer(point, environment, layout, declared["bound"], cards)) as observer:
                around = {
                    "held_back": limiting_settings(environment, _libraries(task, point))
                    if layout.processes == 1
                    else [],
                    "peak": observer.peak(declared["bound"], task.work.unit_kind),
                }
                if isinstance(task, Training):

                    def publish_fields(fields: Outcome) -> None:
                        with suppress(ValidationError):  # the final record reports the invalid field
                            if publish:
                                publish(record(fields | around))

                    brief_s, spare_s = max_seconds if brief else None, _patience(patience_s, max_seconds)
                    outcome = train(task, point, phase, observer, keep, publish_fields, brief_s, spare_s)
                    readings = observer.sampler.series(begin)
                else:
                    outcome = _sample(task, point.device, phase, observer, max_seconds, patience_s)
            outcome |= around
    except Skip as skip:
        outcome = {"status": "skipped", "reason": readable(str(skip))}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any error of a benchmark is a failed record of that point
        outcome = _failure(f"{type(error).__name__}: {error}", _memory_left(error, point.device))

    try:
        found = record(outcome)
    except ValidationError as error:
        found = record(_failure(f"the benchmark's result cannot be stored: {first_fault(error)}"))
    return with_scalars(found, readings, keep)


def _patience(patience_s: float | None, max_seconds: float) -> float:
    """Return the additional time for clean blocks of training steps; see `measure`."""
    return PATIENCE_SHARE * max_seconds if patience_s is None else patience_s


def _failure(reason: str, hint: str = "") -> Outcome:
    """Return the fields of a failed record from the exception that is being handled."""
    trace = traceback.format_exc().splitlines()[-TRACEBACK_LINES:]
    return {
        "status": "failed",
        "reason": readable(" ".join(reason.split()) + hint),
        "output_tail": [readable(line) for line in trace],
    }


def _libraries(task: Task | Training, point: Point) -> set[str]:
    """Return the library or backend that does the point's work on the host's CPUs."""
    if point.device != "cpu" or point.host_cores is not None:
        return set()
    named = task.library if isinstance(task, Task) else point.backend
    return {named} if named else set()


def _layout(declared: Layout, known: Layout | None) -> Layout:
    """Return the layout of the task with the declared axes."""
    return replace(known, axes=declared.axes, input_workers=declared.input_workers) if known else declared


def _sample(
    task: Task, device: Device, phase: PhaseClock, observer: Observer, max_seconds: float, patience_s: float | None
) -> Outcome:
    try:
        launched: list[float] = []
        run, time = device_kind(device).timer(task, patience_s, launched)
        return _lead(task, run, partial(time, max_seconds), phase, observer, launched)
    finally:
        if task.together:
            task.together.finish()


def _lead(
    task: Task,
    run: Callable[[], object],
    time: Callable[[], Timing],
    phase: PhaseClock,
    observer: Observer,
    launched: Sequence[float],
) -> Outcome:
    with phase("first_call_s"):
        run()
    with phase("verify_s"):
        verification = task.verify()
    outcome = outcome_of(verification) | {"work": task.work}
    if not verification.passed:
        return outcome
    return outcome | time_samples(run, time, phase, observer, task.metrics, launched)


def time_samples(
    run: Callable[[], object],
    time: Callable[[], Timing],
    phase: PhaseClock,
    observer: Observer,
    metrics: Callable[[float], Mapping[str, Metric]] | None = None,
    launched: Sequence[float] = (),
) -> Outcome:
    """Warm up by `run`, take the samples, and return them with their noise flags as fields of a record.

    `launched` are the launch times of the samples on a GPU, after `time` was called; empty if they are unknown.
    """
    with observer.place:
        with phase("warmup_s"):
            soak(run)
        with observer, phase("measure_s"), JaxCompilations() as compilations:
            timing = time()
        if timing.upper_bound and waits_for_itself(observer.sampler.result()):
            timing = without_causes(timing)
        by_sample = timing.causes is not None
        timing = without_shared(timing, launched, observer.sampler.shared_times())
        found = _finite(metrics(timing.summary.median)) if metrics else {}
    observed = observer.result(by_sample=by_sample)
    observed["noise"] += clock_flags(timing) + compilations.flags()
    return observed | {"timing": timing, "metrics": found}


def _finite(metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
    """Return the metrics; raise ArithmeticError if a value is not finite."""
    for name, metric in metrics.items():
        if not math.isfinite(metric.value):
            raise ArithmeticError(f"the metric {name} is {metric.value}")
    return metrics


def require_vendor(benchmark: Benchmark, point: Point) -> None:
    """Skip the point if its implementation does not run on the devices of this machine's vendor."""
    vendors = benchmark.vendors_of(point)
    if vendors and (kind := device_kind(point.device)).vendor not in vendors:
        here = f"the {kind.title} of this machine is from {kind.vendor}"
        raise Skip(f"this implementation requires a {kind.title} from {' or '.join(vendors)}; {here}")


def _memory_left(error: BaseException, device: Device) -> str:
    """Return the free memory as text after an out-of-memory error, else an empty string."""
    if type(error).__name__ not in OUT_OF_MEMORY and "RESOURCE_EXHAUSTED" not in str(error):
        return ""
    left = device_kind(device).memory_left()
    return f" ({left})" if left else ""
