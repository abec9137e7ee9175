"""One point from its declaration to its record: prepare, first call, verify, warm up, measure."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from pydantic import ValidationError

from accelbench.profiling.benchmark import Benchmark, Serving, Skip, Task, Training
from accelbench.profiling.machine.devices import device_kind
from accelbench.profiling.machine.held_back import held_back
from accelbench.profiling.machine.noise import clock_flags
from accelbench.profiling.machine.observer import Observer
from accelbench.profiling.measure_training import train, with_scalars
from accelbench.profiling.profiled_steps import Keep
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import first_fault, readable
from accelbench.profiling.records.timing import Phases
from accelbench.profiling.timing.host import soak
from accelbench.profiling.timing.phase_clock import PhaseClock
from accelbench.profiling.timing.verification import outcome_of
from accelbench.profiling.trace.scalars import Readings

TRACEBACK_LINES = 30
OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError", "ResourceExhaustedError", "_ArrayMemoryError")
"""The errors that Python, PyTorch and CuPy, TensorFlow, and NumPy raise where memory runs out."""
Outcome = dict[str, Any]
"""The fields of a record that measuring decides."""


def measure(
    benchmark: Benchmark,
    point: Point,
    environment: Environment,
    max_seconds: float,
    keep: Keep | None = None,
    brief: bool = False,
    tell: Callable[[Record], None] | None = None,
) -> Record:
    """Measure one point; whatever goes wrong is in the record, and only Ctrl-C and death are not.

    `max_seconds` bounds the sampling of a kernel. A training experiment runs for its epochs, and is then profiled:
    `keep` says what of that is kept, and `tell` is given its record before, without the profile. A `brief` one is not
    profiled, and may end after that sampling time: another round of the point tells its quality.
    """
    started, begin, phase = datetime.now(UTC), perf_counter(), PhaseClock()
    declared = benchmark.declared(point)
    readings: Readings = {}

    def record(outcome: Outcome) -> Record:
        elapsed_s, phases = max(0.0, perf_counter() - begin), Phases(**phase.seconds)
        return Record(point=point, started=started, elapsed_s=elapsed_s, phases=phases, **declared, **outcome)

    try:
        with phase("prepare_s"):
            _require_vendor(benchmark, point)
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
            with closing(Observer(point, environment, layout, declared["bound"])) as observer:
                around = {
                    "held_back": held_back(environment, _libraries(task, point)) if layout.processes == 1 else [],
                    "peak": observer.peak(declared["bound"], task.work.unit_kind),
                }
                if isinstance(task, Training):

                    def tell_so_far(fields: Outcome) -> None:
                        with suppress(ValidationError):  # the record at the end says what cannot be stored
                            if tell:
                                tell(record(fields | around))

                    outcome = train(task, point, phase, observer, keep, tell_so_far, max_seconds if brief else None)
                    readings = observer.sampler.series(begin)
                else:
                    outcome = _sample(task, point.device, phase, observer, max_seconds)
            outcome |= around
    except Skip as skip:
        outcome = {"status": "skipped", "reason": readable(str(skip))}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a benchmark does wrong is that point's failed record
        outcome = _failure(f"{type(error).__name__}: {error}", _memory_left(error, point.device))

    try:
        found = record(outcome)
    except ValidationError as error:
        found = record(_failure(f"what the benchmark gave cannot be stored: {first_fault(error)}"))
    return with_scalars(found, readings, keep)


def _failure(reason: str, hint: str = "") -> Outcome:
    """Return the fields of a record whose point raised the exception that is being handled."""
    trace = traceback.format_exc().splitlines()[-TRACEBACK_LINES:]
    return {
        "status": "failed",
        "reason": readable(" ".join(reason.split()) + hint),
        "output_tail": [readable(line) for line in trace],
    }


def _libraries(task: Task | Training, point: Point) -> set[str]:
    """Return what does the work of this point on the host's CPUs: a library that the task names, or a backend."""
    if point.device != "cpu" or point.host_cores is not None:
        return set()
    named = task.library if isinstance(task, Task) else point.backend
    return {named} if named else set()


def _layout(declared: Layout, known: Layout | None) -> Layout:
    """Return what the task knows of its layout, said by the axes that the benchmark declares."""
    return replace(known, axes=declared.axes, input_workers=declared.input_workers) if known else declared


def _sample(task: Task, device: Device, phase: PhaseClock, observer: Observer, max_seconds: float) -> Outcome:
    try:
        return _lead(task, device, phase, observer, max_seconds)
    finally:
        if task.together:
            task.together.finish()


def _lead(task: Task, device: Device, phase: PhaseClock, observer: Observer, max_seconds: float) -> Outcome:
    run, time = device_kind(device).timer(task)
    with phase("first_call_s"):
        run()
    with phase("verify_s"):
        verification = task.verify()
    outcome = outcome_of(verification) | {"work": task.work}
    if not verification.passed:
        return outcome
    with observer.place:
        with phase("warmup_s"):
            soak(run)
        with observer, phase("measure_s"):
            timing = time(max_seconds)
        metrics = _finite(task.metrics(timing.summary.median)) if task.metrics else {}
    observed = observer.result()
    observed["noise"] += clock_flags(timing)
    return observed | outcome | {"timing": timing, "metrics": metrics}


def _finite(metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
    """Return the metrics; ArithmeticError if one of them is no number."""
    for name, metric in metrics.items():
        if not math.isfinite(metric.value):
            raise ArithmeticError(f"the metric {name} is {metric.value}")
    return metrics


def _require_vendor(benchmark: Benchmark, point: Point) -> None:
    """Skip the point if its implementation does not run on the devices of this machine's vendor."""
    vendors = benchmark.vendors_of(point)
    if vendors and (kind := device_kind(point.device)).vendor not in vendors:
        here = f"this {kind.title} is of vendor {kind.vendor}"
        raise Skip(f"this implementation is for {kind.title}s of {' and '.join(vendors)}, and {here}")


def _memory_left(error: BaseException, device: Device) -> str:
    """Return how much is free where memory ran out: the error itself says what was asked."""
    if type(error).__name__ not in OUT_OF_MEMORY and "RESOURCE_EXHAUSTED" not in str(error):
        return ""
    left = device_kind(device).memory_left()
    return f" ({left})" if left else ""
