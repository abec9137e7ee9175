"""Simulation of the statistics: coverage of intervals, and false-positive rates.

The samples are synthetic, from a fixed seed, so that the true median is known. The requested confidence is 95 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.signal import lfilter
from scipy.special import ndtri

from accelbench.compare.change import judge
from accelbench.compare.evidence import from_repetitions
from accelbench.compare.runs import EQUIVALENCE
from accelbench.history.spread import spread_of_levels
from accelbench.profiling.analysis.course import course
from accelbench.profiling.timing.causes import CauseLog, MachineCounters, WaitCounters, WaitSource
from accelbench.profiling.timing.host import StoppingRule, time_host
from accelbench.profiling.timing.statistics import median_interval, summarize, summarize_repetitions
from tests.bench_self.bounds import Bound

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]

SEED = 18
REPETITIONS = 1000
STOPPED = 100
SPREAD = 0.02
"""Relative standard deviation of the samples within a process."""
SPIKES = 0.05
"""Share of spikes among the samples of a spiky process."""
SIZES = (100, 300, 1000)
"""Numbers of samples of a process; the shortest measurement has 500 samples of 1 ms."""
COVERED = 0.93
LEAST_COVERAGE = {("AR(1) of 0.99", 100): None, ("AR(1) of 0.99", 300): 0.88, ("AR(1) of 0.99", 1000): 0.88}
"""Bounds for the strongest autocorrelation. Its 100 samples are equivalent to half an independent one, so their
interval cannot have 95 % and has a smaller confidence."""
SAMPLE_SECONDS = (0.002, 0.01, 0.05)
"""Sample lengths in seconds for the simulation of the stopping rule."""
MOST_SAMPLES = 1500
BURST_SAMPLE_SECONDS = (0.002, 0.01)
BURSTS_S, BURST_SHARES = (0.001, 0.01, 0.1, 1.0), (0.05, 0.2, 0.4, 0.6)
"""Mean lengths of the bursts of other work, and their shares of the time."""
MAX_BURST_SECONDS = 3.0
"""Limit of the sampling time of a simulated measurement."""


def autoregressive(rng: np.random.Generator, n: int, rho: float) -> Values:
    """Return n values of a first-order autoregressive process with variance 1, median 0 and autocorrelation `rho`."""
    steps = rng.standard_normal(n) * np.r_[1, np.full(n - 1, (1 - rho**2) ** 0.5)]
    return np.asarray(lfilter([1], [1, -rho], steps))


def independent(rng: np.random.Generator, n: int) -> Values:
    return np.exp(SPREAD * rng.standard_normal(n))


def skewed(rng: np.random.Generator, n: int) -> Values:
    return np.asarray((1 + SPREAD * rng.exponential(size=n)) / (1 + SPREAD * np.log(2)))


def spiky(rng: np.random.Generator, n: int) -> Values:
    """Return log-normal samples with spikes, divided by their median, which the spikes raise."""
    spikes = np.where(rng.random(n) < SPIKES, 1.1 + rng.exponential(size=n), 1)
    median = np.exp(SPREAD * ndtri(0.5 / (1 - SPIKES)))
    return np.asarray(independent(rng, n) * spikes / median)


def dependent(rho: float) -> Draw:
    return lambda rng, n: np.exp(SPREAD * autoregressive(rng, n, rho))


PROCESSES: dict[str, Draw] = {
    "independent": independent,
    "skewed": skewed,
    "spiky": spiky,
    "AR(1) of 0.5": dependent(0.5),
    "AR(1) of 0.9": dependent(0.9),
    "AR(1) of 0.99": dependent(0.99),
}
"""Random processes, each with median 1."""


def coverage_within(console: Console, repetitions: int = REPETITIONS) -> list[Bound]:
    """Return the coverage of the median's interval within one process."""
    rng, bounds = np.random.default_rng(SEED), []
    for name, draw in PROCESSES.items():
        for n in SIZES:
            bound = Bound(f"coverage, {name}, {n} samples", "", at_least=LEAST_COVERAGE.get((name, n), COVERED))
            intervals = [median_interval(draw(rng, n)) for _ in range(repetitions)]
            bound.found.append(float(np.mean([i.low <= 1 <= i.high for i in intervals])))
            stated = np.mean([i.confidence for i in intervals])
            width = np.median([i.high - i.low for i in intervals]) / 2
            console.print(f"{bound.name}: {bound.found[-1]:.3f} (confidence {stated:.3f}, ±{width:.2%})")
            bounds.append(bound)
    return bounds


def coverage_over_repetitions(console: Console, repetitions: int = REPETITIONS) -> list[Bound]:
    """Return the coverage of the interval over repetitions, for processes that differ."""
    rng, bounds, samples = np.random.default_rng(SEED), [], 40
    for differ in (0.0, 0.01, 0.05):
        for count in (2, 3, 5):
            bound = Bound(f"coverage, processes differ by {differ:.0%}, {count} repetitions", "", at_least=COVERED)
            held, widths = [], []
            for _ in range(repetitions):
                levels = np.exp(differ * rng.standard_normal(count))
                summary = summarize_repetitions([level * dependent(0.5)(rng, samples) for level in levels])
                held.append(summary.ci_low <= 1 <= summary.ci_high)
                widths.append((summary.ci_high - summary.ci_low) / 2)
            bound.found.append(float(np.mean(held)))
            width = np.median(widths)
            console.print(f"{bound.name} of {samples} samples: {bound.found[-1]:.3f} (±{width:.2%})")
            bounds.append(bound)
    return bounds


@dataclass
class ContendedCounters:
    """Simulated machine on which bursts of other work stop a process; time passes only while it is sampled."""

    rng: np.random.Generator
    burst_s: float
    share: float
    length: float
    source: WaitSource | None = "schedstat"
    until_burst_s: float = 0.0
    now: WaitCounters = field(default_factory=WaitCounters)

    def sample(self, loops: int) -> float:
        """Return the duration of an execution whose undisturbed duration has the median `length`."""
        own = float(self.length * np.exp(SPREAD * self.rng.standard_normal()))
        waited, bursts, left = 0.0, 0, own
        while left > self.until_burst_s:
            left -= self.until_burst_s
            waited += self.rng.exponential(self.burst_s)
            bursts += 1
            self.until_burst_s = self.rng.exponential(self.burst_s * (1 / self.share - 1))
        self.until_burst_s -= left
        before, cpu_s = self.now, self.now.cpu_s + own
        switches = before.switches + bursts
        waited_ns = before.waited_ns + round(waited * 1e9)
        self.now = WaitCounters(waited_ns, before.slices + bursts, switches, cpu_s)
        return own + waited

    def waits(self) -> WaitCounters:
        return self.now

    def machine(self) -> MachineCounters:
        return MachineCounters()

    def close(self) -> None:
        """Do nothing."""


def coverage_beside_bursts(console: Console, repetitions: int = STOPPED) -> list[Bound]:
    """Return the coverage of the intervals of clean samples beside bursts of other work, and of the bounds."""
    rng, bounds = np.random.default_rng(SEED), []
    for length in BURST_SAMPLE_SECONDS:
        covered = Bound(f"coverage beside bursts, samples of {length * 1e3:g} ms", "", at_least=COVERED)
        true = Bound(f"true bounds beside bursts, samples of {length * 1e3:g} ms", "", at_least=COVERED)
        held: list[bool] = []
        bound_held: list[bool] = []
        for burst_s, share in product(BURSTS_S, BURST_SHARES):
            for _ in range(repetitions):
                machine = ContendedCounters(rng, burst_s, share, length)
                log = CauseLog(machine)
                log.read_every_s = 0.0  # independent of the real costs, so that the seed determines the result
                timing = time_host(machine.sample, MAX_BURST_SECONDS, open_causes=lambda log=log: log)
                if timing.upper_bound:
                    bound_held.append(timing.summary.median >= length)
                else:
                    held.append(timing.summary.ci_low <= length <= timing.summary.ci_high)
        covered.found.append(float(np.mean(held)))
        bounds.append(covered)
        console.print(f"{covered.name}: {covered.found[-1]:.3f} of {len(held)}")
        if bound_held:
            true.found.append(float(np.mean(bound_held)))
            bounds.append(true)
            console.print(f"{true.name}: {true.found[-1]:.3f} of {len(bound_held)}")
    return bounds


def stopping(console: Console, repetitions: int = STOPPED) -> list[Bound]:
    """Return coverage and bias of samples that were ended by the stopping rule."""
    rng, bounds = np.random.default_rng(SEED), []
    for name in ("independent", "skewed", "spiky", "AR(1) of 0.5"):
        covered = Bound(f"coverage after stopping, {name}", "", at_least=COVERED)
        bias = Bound(f"bias after stopping, {name}", "σ", at_least=-0.05, at_most=0.05)
        for length in SAMPLE_SECONDS:
            taken = [_until_stopped(PROCESSES[name](rng, MOST_SAMPLES), length) for _ in range(repetitions)]
            summaries = [summarize(samples) for samples in taken]
            covered.found.append(float(np.mean([s.ci_low <= 1 <= s.ci_high for s in summaries])))
            bias.found.append(float(np.mean([s.median - 1 for s in summaries]) / SPREAD))
            count = np.median([s.count for s in summaries])
            shown = f"{covered.found[-1]:.3f}, bias {bias.found[-1]:+.3f} σ ({count:.0f} samples)"
            console.print(f"{covered.name}, samples of {length * 1e3:g} ms: {shown}")
        bounds += [covered, bias]
    return bounds


def _until_stopped(samples: Values, length: float) -> Values:
    rule = StoppingRule(max_seconds=15.0)
    ends = (place for place, sample in enumerate(samples, start=1) if rule.add(sample, length * sample))
    return samples[: next(ends, len(samples))]


def false_alarms(console: Console, repetitions: int = REPETITIONS) -> list[Bound]:
    """Return how often independent samples, of processes that differ by chance, are not classified as steady.

    The rate is at most 1 %; the bound allows for the sampling error of 1000 repetitions.
    """
    rng, bounds = np.random.default_rng(SEED), []
    for name in ("independent", "skewed", "spiky"):
        for counts in ([10], [100], [40] * 3, [40] * 5):
            shape = f"{len(counts)} × {counts[0]} samples"
            bound = Bound(f"false alarms of the time course, {name}, {shape}", "", at_most=0.015)
            found = [course(_in_repetitions(rng, PROCESSES[name], counts), counts).kind for _ in range(repetitions)]
            bound.found.append(float(np.mean([kind != "steady" for kind in found])))
            console.print(f"{bound.name}: {bound.found[-1]:.4f}")
            bounds.append(bound)
    return bounds


def differences_between_runs(console: Console, repetitions: int = 8 * REPETITIONS) -> list[Bound]:
    """Return the false-positive rate for three runs per side of equal speed, and the detection rate of 10 % more work.

    Both are measured with and without ten past runs, from which the spread between runs is known.
    """
    rng, bounds = np.random.default_rng(SEED), []
    for deviation in (0.017, 0.03, 0.047):
        for past in (0, 10):
            setting = f"runs differ by {deviation:.1%}, {past} past runs"
            wrong = Bound(f"false positives, {setting}", "", at_most=0.05)
            found = Bound(f"10 % more work detected, {setting}", "")
            for bound, slower in ((wrong, 1.0), (found, 1.1)):
                verdicts = [_verdict(rng, deviation, past, slower) for _ in range(repetitions)]
                bound.found.append(float(np.mean([verdict in ("slower", "faster") for verdict in verdicts])))
            console.print(f"{setting}: {wrong.found[-1]:.3f} false positives, {found.found[-1]:.3f} detected")
            bounds += [wrong, found]
    return bounds


def _verdict(rng: np.random.Generator, deviation: float, past: int, slower: float) -> str:
    """Return the verdict on three runs per side, where a run of B takes `slower` times as long."""
    a, b = np.exp(deviation * rng.standard_normal((2, 3)))
    normal = spread_of_levels([deviation * rng.standard_normal(past)]) if past else None
    evidence = from_repetitions(a.tolist(), (slower * b).tolist(), "runs", (normal, normal))
    assert evidence is not None
    return judge(evidence.speed, EQUIVALENCE)[0]


def _in_repetitions(rng: np.random.Generator, draw: Draw, counts: list[int]) -> Values:
    """Return samples of processes that differ by 3 %, with the given number of samples each."""
    return np.concatenate([np.exp(0.03 * rng.standard_normal()) * draw(rng, count) for count in counts])
