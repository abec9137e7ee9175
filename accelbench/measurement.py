"""Timing of one callable in this process, for notebooks and scripts: `accelbench.measure`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from html import escape
from time import perf_counter
from typing import Any

from accelbench.output.format import percent, read, read_result, seconds
from accelbench.output.plain_text import one_line
from accelbench.profiling.analysis.course import course_of, disturbances
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.observer import Observer
from accelbench.profiling.measure.point import time_samples
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Execution, Phases, Timing
from accelbench.profiling.records.work import Bound, MainMetric, Work
from accelbench.profiling.timing.host import PhaseClock
from accelbench.profiling.timing.verification import outcome_of

UNKNOWN_BOUND = Bound(reason="a measured callable declares no bound")
_environment = lru_cache(maxsize=1)(collect)


class WrongAnswer(Exception):
    """Failed check of a measured callable; the message has the error and the tolerance."""


@dataclass(frozen=True, repr=False)
class Measurement:
    """Time per call of a callable, with its confidence interval, from the samples of one process.

    The interval accounts for the autocorrelation of the samples. It does not cover variation between processes, such as
    memory placement, which `accelbench run --rounds` measures.
    """

    record: Record
    """Record of the measurement as in a stored run, with `timing.samples`, `phases` and `telemetry`."""

    @property
    def name(self) -> str:
        """Return the name of the callable."""
        return self.record.point.benchmark

    @property
    def seconds(self) -> float:
        """Return the median seconds per call."""
        return self._execution.seconds

    @property
    def interval(self) -> tuple[float, float]:
        """Return the lower and upper end of the median's interval in seconds; `confidence` is its coverage."""
        return self._execution.low, self._execution.high

    @property
    def confidence(self) -> float:
        """Return the coverage of the interval: 0.95, or less if there are few independent samples."""
        return self._execution.confidence

    @property
    def samples(self) -> list[float]:
        """Return the seconds per call of each undisturbed sample; `record.timing.samples` has all samples."""
        return self._timing.used

    @property
    def rate(self) -> float | None:
        """Return flops, bytes or items per second; None if no work was given."""
        return None if self.record.figure == "time" else self.record.rate()

    @property
    def phases(self) -> Phases:
        """Return the seconds of the first call, the warm-up, the measurement and the verification."""
        return self.record.phases

    @property
    def verified(self) -> bool:
        """Return whether the result was checked."""
        return self.record.verification is not None

    @cached_property
    def noise(self) -> list[str]:
        """Return the observed noise, one text per cause; empty if there is none."""
        return disturbances(self.record, course_of(self.record))

    @property
    def _timing(self) -> Timing:
        assert self.record.timing is not None
        return self.record.timing

    @property
    def _execution(self) -> Execution:
        return self._timing.execution

    def _facts(self) -> dict[str, str]:
        """Return the displayed facts by name."""
        time = read(self.seconds, "s", *self.interval)
        low_to_high = time.interval.startswith("±")
        interval = f"± {time.interval[1:].strip()}" if low_to_high else f"({time.interval})"
        timing = self._timing
        sign = self.record.bound_sign("time")
        calls = f" of {timing.loops:,} calls" if timing.loops > 1 else ""
        facts = {
            "time": f"{sign}{time.quantity}" if sign else f"{time.quantity} {interval}",
            "interval": f"{percent(self.confidence)} confidence, {timing.summary.count:,} samples{calls}, one process",
            "first call": seconds(self.phases.first_call_s),
            "answer": "verified" if self.verified else "not verified",
        }
        if self.rate is not None and (rate := read_result(self.record)):
            facts = {"rate": rate.quantity} | facts
        return facts | ({"noisy": "; ".join(map(one_line, self.noise))} if self.noise else {})

    def __str__(self) -> str:
        facts = self._facts()
        rate = f", {facts['rate']}" if "rate" in facts else ""
        lines = [
            f"{self.name}: {facts['time']}{rate}",
            f"  {facts['interval']}; first call {facts['first call']}; {facts['answer']}",
            *([f"  noisy: {facts['noisy']}"] if "noisy" in facts else []),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{escape(self.name)}</caption>{rows}</table>"


def measure(
    function: Callable[..., object],
    *arguments: Any,
    device: str = "cpu",
    on_stream: bool = False,
    verify: Callable[[], Verification] | None = None,
    work: Work | None = None,
    max_seconds: float = 5.0,
    name: str | None = None,
) -> Measurement:
    """Time `function(*arguments)` in this process and return the `Measurement`.

    After a first call, which may compile, and a warm-up, samples are taken until their spread is below 0.5 % or no
    longer shrinks, or for `max_seconds`. Short calls are repeated within a sample. Sensors and counters are read during
    the measurement; observed noise is in `noise`.

    With `device="gpu"`, each call is timed by the host clock until the GPU has finished all its work. With `on_stream`,
    NVBench times on the GPU: `function(stream, *arguments)` must enqueue its work on that CUDA stream (an integer
    handle) and must not synchronize. NVBench can measure once per process.

    `verify` is called after the first call and returns a `Verification`, for example from `verify_close`; a failed one
    raises `WrongAnswer`. `work` is the work of one call; the rate is of flops, else bytes, else items.

    Raises `DeviceMissing` if the device is missing and `ValueError` for invalid arguments. Exceptions of the function
    are passed on.
    """
    if not max_seconds > 0:
        raise ValueError(f"max_seconds must be positive, not {max_seconds}")
    kind = device_kind(device)
    if on_stream and device != "gpu":
        raise ValueError(f"on_stream=True requires device='gpu', not {device!r}")
    (kind.require if on_stream else kind.find)()
    called = name or getattr(function, "__qualname__", None) or type(function).__name__
    point, work = Point(one_line(called), device, {}), work or Work()
    metric: MainMetric = next((each for each in ("flops", "bytes", "items") if work.amount(each)), "time")
    run, time = kind.timer(_task(function, arguments, device, on_stream, work, verify or _unchecked))
    started, begin, phase = datetime.now(UTC), perf_counter(), PhaseClock()
    with closing(Observer(point, _environment(), Layout(), UNKNOWN_BOUND)) as observer:
        with phase("first_call_s"):
            run()
        verification = None
        if verify:
            with phase("verify_s"):
                verification = verify()
            if reason := outcome_of(verification).get("reason"):
                raise WrongAnswer(f"{point.benchmark}: {reason}")
        outcome = time_samples(run, partial(time, max_seconds), phase, observer)
    return Measurement(
        Record(
            point=point,
            figure=metric,
            bound=UNKNOWN_BOUND,
            status="measured",
            started=started,
            elapsed_s=perf_counter() - begin,
            phases=Phases(**phase.seconds),
            work=work,
            verification=verification,
            **outcome,
        )
    )


def _task(
    function: Callable[..., object],
    arguments: tuple[Any, ...],
    device: str,
    on_stream: bool,
    work: Work,
    verify: Callable[[], Verification],
) -> Task:
    """Return the callable as a task; without a stream, its execution includes waiting for the device."""
    kind = device_kind(device)
    call = partial(function, *arguments) if arguments else function
    if on_stream:
        return Task(lambda stream: function(stream, *arguments), verify, work, timer="device")
    if device == "cpu":
        return Task(call, verify, work, timer="host")

    def call_and_wait() -> None:
        call()
        kind.synchronize()

    return Task(call_and_wait, verify, work, timer="host")


def _unchecked() -> Verification:
    return Verification(False, "no check was given")
