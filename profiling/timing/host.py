"""Host timer: repeats an execution until its time is known well enough; clock of a point's phases.

The stopping rule is NVBench's `stdrel` criterion (NVIDIA/nvbench, `nvbench/detail/stdrel_criterion.cuh`), so that CPU
and GPU measurements stop by the same rule.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns

from accelbench.profiling.records.timing import StopReason, Timing
from accelbench.profiling.timing.statistics import summarize

MIN_SAMPLES = 10
MIN_SECONDS = 0.5
MAX_RELATIVE_STDEV = 0.005
STEADY_NOISE = 0.05
"""The relative spread of the noise below which it will not shrink by waiting longer."""
NOISE_WINDOW = 512
MIN_NOISE_ESTIMATES = 64
MAX_SAMPLES = 100_000
"""The most samples, which bounds the size of a record; at one millisecond a sample it is 100 seconds."""
MIN_SAMPLE_SECONDS = 1e-3
"""The least length of a sample: it stands clear of the timer's resolution and of reading it (about 50 ns)."""
SOAK_SECONDS = 0.3
"""The warm-up beyond the first call, in seconds: clocks, caches and branch predictors settle."""


def soak(run: Callable[[], object], seconds: float = SOAK_SECONDS) -> None:
    """Run for about that long without recording anything."""
    end = perf_counter_ns() + int(seconds * 1e9)
    while perf_counter_ns() < end:
        run()


def sample_seconds(run: Callable[[], object], loops: int) -> float:
    """Take a sample of so many executions, and return the seconds per execution."""
    begin = perf_counter_ns()
    for _ in range(loops):
        run()
    return (perf_counter_ns() - begin) / loops * 1e-9


def choose_loops(sample: Callable[[int], float]) -> int:
    """Return the power of two of executions that makes one sample at least a millisecond long.

    Three samples in a row must be so long: a single one may have been interrupted. One of a tenth of a second was not.
    ArithmeticError where the clock goes backwards, or shows no number.
    """
    loops, long_enough = 1, 0
    while long_enough < 3:
        seconds = sample(loops) * loops
        if not seconds >= 0:
            raise ArithmeticError(f"the clock says that a sample took {seconds} s")
        if seconds < MIN_SAMPLE_SECONDS:
            loops, long_enough = 2 * loops, 0
        else:
            long_enough += 3 if seconds >= 100 * MIN_SAMPLE_SECONDS else 1
    return loops


class StoppingRule:
    """Decides after each sample whether to go on; `reason` is set once it is time to stop."""

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds = max_seconds
        self.reason: StopReason | None = None
        self._count = 0
        self._total = 0.0
        self._mean = 0.0
        self._squares = 0.0
        self._noise: deque[float] = deque(maxlen=NOISE_WINDOW)

    def add(self, seconds: float, wall: float) -> bool:
        """Take in one sample (seconds per execution, and the wall time it took); true when it was the last."""
        self._count += 1
        self._total += wall
        # Welford's update of mean and sum of squares: one pass, and no cancellation.
        delta = seconds - self._mean
        self._mean += delta / self._count
        self._squares += delta * (seconds - self._mean)
        self.reason = self._decide()
        return self.reason is not None

    def _decide(self) -> StopReason | None:
        if self._count >= MIN_SAMPLES:
            noise = math.sqrt(self._squares / (self._count - 1)) / self._mean
            self._noise.append(noise)
            if self._total >= MIN_SECONDS:
                if noise < MAX_RELATIVE_STDEV:
                    return "relative spread"
                if len(self._noise) >= MIN_NOISE_ESTIMATES and _relative_stdev(self._noise) < STEADY_NOISE:
                    return "steady noise"
        if self._total >= self.max_seconds:
            return "time limit"
        if self._count >= MAX_SAMPLES:
            return "sample limit"
        return None


def _relative_stdev(values: deque[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)) / mean


def time_host(sample: Callable[[int], float], max_seconds: float) -> Timing:
    """Take samples until the stopping rule ends it; warm up first (`soak`).

    `sample(loops)` gives the seconds per execution of so many: `sample_seconds` of what is to be run.
    """
    loops = choose_loops(sample)
    rule = StoppingRule(max_seconds)
    samples: list[float] = []
    while rule.reason is None:
        seconds = sample(loops)
        samples.append(seconds)
        rule.add(seconds, seconds * loops)
    return Timing(samples=samples, loops=loops, stop=rule.reason, timer="host", summary=summarize(samples))


class PhaseClock:
    """Wall time of each phase of a point in seconds, by the fields of `Phases`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begin
