"""Host timer, which repeats an execution until the stopping rule is met, and clock of a point's phases.

The stopping rule is NVBench's `stdrel` criterion (NVIDIA/nvbench, `nvbench/detail/stdrel_criterion.cuh`), so that CPU
and GPU measurements stop by the same rule.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns

from accelbench.profiling.records.timing import StopReason, Timing
from accelbench.profiling.timing.causes import CauseLog, CauseReading, ChosenSamples, choose_samples, overlap_s
from accelbench.profiling.timing.statistics import summarize

MIN_SAMPLES = 10
MIN_SECONDS = 0.5
MAX_RELATIVE_STDEV = 0.005
STEADY_NOISE = 0.05
"""The relative spread of the noise estimates below which more samples will not reduce the noise."""
NOISE_WINDOW = 512
MIN_NOISE_ESTIMATES = 64
MAX_SAMPLES = 100_000
"""Maximum number of samples, which limits the size of a record; with samples of 1 ms it takes 100 s."""
MOST_DISTURBED_S = 0.2
"""Largest time of disturbed samples that do not count for the number of executions per sample."""
MIN_SAMPLE_SECONDS = 1e-3
"""Minimum length of a sample, much longer than the resolution and the overhead of the timer (about 50 ns)."""
MOST_OVERHEAD = 0.01
"""Largest share of a sample that the known overhead of its timed call may have."""
PATIENCE_SHARE = 0.5
"""Default of the additional time for clean samples, relative to the planned time."""
SOAK_SECONDS = 0.3
"""Duration of the warm-up after the first call, in seconds: clocks, caches and branch predictors settle."""


def soak(run: Callable[[], object], seconds: float = SOAK_SECONDS) -> None:
    """Call `run` repeatedly for about `seconds`, without samples."""
    end = perf_counter_ns() + int(seconds * 1e9)
    while perf_counter_ns() < end:
        run()


def sample_seconds(run: Callable[[], object], loops: int) -> float:
    """Time `loops` executions in one sample, and return the seconds per execution."""
    begin = perf_counter_ns()
    for _ in range(loops):
        run()
    return (perf_counter_ns() - begin) / loops * 1e-9


def choose_loops(
    sample: Callable[[int], float], log: CauseLog | None = None, shortest_s: float = MIN_SAMPLE_SECONDS
) -> int:
    """Return the smallest power of two of executions with which a sample takes at least `shortest_s` seconds.

    Three consecutive samples must be long enough, since a single one may have been interrupted; a single execution of
    100 ms suffices. With a log of causes, disturbed samples do not count, up to `MOST_DISTURBED_S` in total. Raises
    ArithmeticError if a sample time is negative or NaN.
    """
    loops, long_enough, disturbed_s = 1, 0, 0.0
    while long_enough < 3:
        seconds = sample(loops) * loops
        if not seconds >= 0:
            raise ArithmeticError(f"the clock returned an invalid sample time of {seconds} s")
        if log and seconds >= shortest_s and disturbed_s < MOST_DISTURBED_S and log.is_disturbed_by_now(seconds):
            disturbed_s += seconds
        elif seconds < shortest_s:
            loops, long_enough = 2 * loops, 0
        else:
            long_enough += 3 if loops == 1 and seconds >= 100 * shortest_s else 1
    return loops


class StoppingRule:
    """Stopping rule, evaluated after each sample; `reason` is set when sampling should stop."""

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds = max_seconds
        self.reason: StopReason | None = None
        self._count = 0
        self._total = 0.0
        self._mean = 0.0
        self._squares = 0.0
        self._noise: deque[float] = deque(maxlen=NOISE_WINDOW)

    @property
    def count(self) -> int:
        """Return the number of added samples."""
        return self._count

    def add(self, seconds: float, wall: float) -> bool:
        """Add a sample (seconds per execution, and its wall time); return whether it is the last one."""
        self._count += 1
        self._total += wall
        # Welford's update of mean and sum of squares: one pass without cancellation.
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


def time_host(
    sample: Callable[[int], float],
    max_seconds: float,
    patience_s: float | None = None,
    open_causes: Callable[[], CauseLog | None] | None = None,
    overhead_s: float = 0.0,
) -> Timing:
    """Take samples until the stopping rule ends the sampling; the caller warms up first (`soak`).

    `sample(loops)` times `loops` executions and returns the seconds per execution, as `sample_seconds` does. With a log
    from `open_causes`, the stopping rule and the statistics are of the clean samples. If they are too few after
    `max_seconds`, sampling continues for at most `patience_s`, by default half of `max_seconds`. A sample is so long
    that `overhead_s`, the known overhead of a call of `sample`, is at most 1 % of it.
    """
    log = open_causes() if open_causes else None
    loops = choose_loops(sample, log, max(MIN_SAMPLE_SECONDS, overhead_s / MOST_OVERHEAD))
    if log:
        log.clear()
    rule, samples = StoppingRule(max_seconds), list[float]()
    if log is None:
        while rule.reason is None:
            seconds = sample(loops)
            samples.append(seconds)
            rule.add(seconds, seconds * loops)
        return Timing(samples=samples, loops=loops, stop=rule.reason, timer="host", summary=summarize(samples))
    most = max_seconds * (1 + PATIENCE_SHARE) if patience_s is None else max_seconds + patience_s
    stop: StopReason | None = None
    while stop is None:
        seconds = sample(loops)
        samples.append(seconds)
        reading = log.add(seconds * loops)
        if reading is not None:
            if not reading.is_disturbed(log.source):
                for each in samples[reading.first :]:
                    rule.add(each, each * loops)
            stop = rule.reason or _limit(log.elapsed_s, rule.count, len(samples), max_seconds, most)
    readings = log.finish()
    chosen = choose_samples(readings, log.source)
    timing = Timing(samples=samples, loops=loops, stop=stop, timer="host", summary=summarize(samples))
    return with_causes(timing, chosen)


def _limit(elapsed: float, clean: int, samples: int, max_seconds: float, most: float) -> StopReason | None:
    """Return the limit that ends the sampling of a disturbed process, given its numbers of samples; else None."""
    if samples >= MAX_SAMPLES:
        return "sample limit"
    is_over = elapsed >= most or (elapsed >= max_seconds and clean >= MIN_SAMPLES)
    return "time limit" if is_over else None


def with_causes(timing: Timing, chosen: ChosenSamples) -> Timing:
    """Return the timing with the causes of its samples, and the statistics of the chosen ones."""
    update: dict[str, object] = {"causes": chosen.causes, "upper_bound": chosen.upper_bound}
    found = timing.model_copy(update=update)
    if not chosen.upper_bound:
        return found.model_copy(update={"summary": summarize(found.used)})
    summary = summarize(chosen.bounds(timing.samples))
    # The median is an upper bound only with the confidence of its interval.
    return found.model_copy(update={"summary": summary.model_copy(update={"median": summary.ci_high})})


def without_shared(timing: Timing, launched: Sequence[float], shared: Sequence[tuple[float, float]]) -> Timing:
    """Return the timing with the statistics of the samples in which no other process used the GPU.

    `launched` are the launch times of the samples, and `shared` the times in which another process used the GPU. Unless
    there are both, the timing is returned unchanged.
    """
    if not shared or len(launched) != len(timing.samples):
        return timing
    ends = [*launched[1:], launched[-1] + timing.samples[-1]]
    readings = [
        CauseReading(place, 1, end - begin, card_s=overlap_s(begin, end, shared))
        for place, (begin, end) in enumerate(zip(launched, ends, strict=True))
    ]
    return with_causes(timing, choose_samples(readings, "card"))


def without_causes(timing: Timing) -> Timing:
    """Return the timing with unknown causes and the statistics of all samples."""
    update: dict[str, object] = {"causes": None, "upper_bound": None, "summary": summarize(timing.samples)}
    return timing.model_copy(update=update)


class PhaseClock:
    """Clock of the phases of a point: `seconds` has the wall time of each phase by the field names of `Phases`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begin
