"""The statistics judged by simulation: how often an interval holds the truth, and how often a finding is false.

Every process is drawn by a fixed seed, and the truth is known because the process was made. An interval of a median is
asked for 95 %.
"""

from __future__ import annotations

from collections.abc import Callable

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
from accelbench.profiling.timing.host import StoppingRule
from accelbench.profiling.timing.statistics import median_interval, summarize, summarize_rounds
from tests.bench_self.bounds import Bound

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]

SEED = 18
REPETITIONS = 1000
STOPPED = 100
SPREAD = 0.02
"""The spread of the samples within a process, over their median."""
SPIKES = 0.05
"""The share of spikes among the samples of a spiky process."""
SIZES = (100, 300, 1000)
"""The samples of one process: a millisecond each in the shortest measurement is 500."""
COVERED = 0.93
LEAST_COVERAGE = {("AR(1) of 0.99", 100): None, ("AR(1) of 0.99", 300): 0.88, ("AR(1) of 0.99", 1000): 0.88}
"""The bounds of the slowest process. A hundred of its samples are worth half an independent one: no such set can tell
the median, and the intervals say that they cover less."""
SAMPLE_SECONDS = (0.002, 0.01, 0.05)
"""The lengths of the samples whose stopping is simulated."""
MOST_SAMPLES = 1500


def autoregressive(rng: np.random.Generator, n: int, rho: float) -> Values:
    """Return n values of variance 1 and median 0 whose correlation with the one before is `rho`."""
    steps = rng.standard_normal(n) * np.r_[1, np.full(n - 1, (1 - rho**2) ** 0.5)]
    return np.asarray(lfilter([1], [1, -rho], steps))


def independent(rng: np.random.Generator, n: int) -> Values:
    return np.exp(SPREAD * rng.standard_normal(n))


def skewed(rng: np.random.Generator, n: int) -> Values:
    return np.asarray((1 + SPREAD * rng.exponential(size=n)) / (1 + SPREAD * np.log(2)))


def spiky(rng: np.random.Generator, n: int) -> Values:
    """Draw mostly normal samples; the spikes are all above the median, which therefore stands a little higher."""
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
"""The processes, each with the median 1."""


def coverage_within(console: Console, repetitions: int = REPETITIONS) -> list[Bound]:
    """Return how often the interval of one process's median holds the true one."""
    rng, bounds = np.random.default_rng(SEED), []
    for name, draw in PROCESSES.items():
        for n in SIZES:
            bound = Bound(f"coverage, {name}, {n} samples", "", at_least=LEAST_COVERAGE.get((name, n), COVERED))
            intervals = [median_interval(draw(rng, n)) for _ in range(repetitions)]
            bound.found.append(float(np.mean([i.low <= 1 <= i.high for i in intervals])))
            stated = np.mean([i.confidence for i in intervals])
            width = np.median([i.high - i.low for i in intervals]) / 2
            console.print(f"{bound.name}: {bound.found[-1]:.3f} (stated {stated:.3f}, ±{width:.2%})")
            bounds.append(bound)
    return bounds


def coverage_over_rounds(console: Console, repetitions: int = REPETITIONS) -> list[Bound]:
    """Return how often the interval over rounds holds the median process, where processes differ."""
    rng, bounds, samples = np.random.default_rng(SEED), [], 40
    for differ in (0.0, 0.01, 0.05):
        for rounds in (2, 3, 5):
            bound = Bound(f"coverage, processes differ by {differ:.0%}, {rounds} rounds", "", at_least=COVERED)
            held, widths = [], []
            for _ in range(repetitions):
                levels = np.exp(differ * rng.standard_normal(rounds))
                summary = summarize_rounds([level * dependent(0.5)(rng, samples) for level in levels])
                held.append(summary.ci_low <= 1 <= summary.ci_high)
                widths.append((summary.ci_high - summary.ci_low) / 2)
            bound.found.append(float(np.mean(held)))
            width = np.median(widths)
            console.print(f"{bound.name} of {samples} samples: {bound.found[-1]:.3f} (±{width:.2%})")
            bounds.append(bound)
    return bounds


def stopping(console: Console, repetitions: int = STOPPED) -> list[Bound]:
    """Return the coverage and the bias once the rule that ends the sampling has looked at the samples."""
    rng, bounds = np.random.default_rng(SEED), []
    for name in ("independent", "skewed", "spiky", "AR(1) of 0.5"):
        covered = Bound(f"coverage once stopped, {name}", "", at_least=COVERED)
        bias = Bound(f"bias once stopped, {name}", "spreads", at_least=-0.05, at_most=0.05)
        for length in SAMPLE_SECONDS:
            taken = [_until_stopped(PROCESSES[name](rng, MOST_SAMPLES), length) for _ in range(repetitions)]
            summaries = [summarize(samples) for samples in taken]
            covered.found.append(float(np.mean([s.ci_low <= 1 <= s.ci_high for s in summaries])))
            bias.found.append(float(np.mean([s.median - 1 for s in summaries]) / SPREAD))
            count = np.median([s.count for s in summaries])
            shown = f"{covered.found[-1]:.3f}, bias {bias.found[-1]:+.3f} spreads ({count:.0f} samples)"
            console.print(f"{covered.name}, samples of {length * 1e3:g} ms: {shown}")
        bounds += [covered, bias]
    return bounds


def _until_stopped(samples: Values, length: float) -> Values:
    rule = StoppingRule(max_seconds=15.0)
    ends = (place for place, sample in enumerate(samples, start=1) if rule.add(sample, length * sample))
    return samples[: next(ends, len(samples))]


def false_alarms(console: Console, repetitions: int = REPETITIONS) -> list[Bound]:
    """Return how often independent samples, of processes that differ by chance, are called anything but steady.

    The rate is 1 % or less; the bound leaves room for the chance of a thousand repetitions.
    """
    rng, bounds = np.random.default_rng(SEED), []
    for name in ("independent", "skewed", "spiky"):
        for counts in ([10], [100], [40] * 3, [40] * 5):
            shape = f"{len(counts)} × {counts[0]} samples"
            bound = Bound(f"false alarms of a course, {name}, {shape}", "", at_most=0.015)
            found = [course(_in_rounds(rng, PROCESSES[name], counts), counts).kind for _ in range(repetitions)]
            bound.found.append(float(np.mean([kind != "steady" for kind in found])))
            console.print(f"{bound.name}: {bound.found[-1]:.4f}")
            bounds.append(bound)
    return bounds


def told_between_runs(console: Console, repetitions: int = 8 * REPETITIONS) -> list[Bound]:
    """Return how often three runs a side of the same speed are told apart, and how often a tenth more work is found.

    Once the spread of ten past runs is known, and once it is not.
    """
    rng, bounds = np.random.default_rng(SEED), []
    for deviation in (0.017, 0.03, 0.047):
        for past in (0, 10):
            known = f"runs differ by {deviation:.1%}, {past} past ones"
            wrong = Bound(f"same speed told apart, {known}", "", at_most=0.05)
            found = Bound(f"a tenth more work found, {known}", "")
            for bound, slower in ((wrong, 1.0), (found, 1.1)):
                verdicts = [_verdict(rng, deviation, past, slower) for _ in range(repetitions)]
                bound.found.append(float(np.mean([verdict in ("slower", "faster") for verdict in verdicts])))
            console.print(f"{known}: {wrong.found[-1]:.3f} of the same told apart, {found.found[-1]:.3f} found")
            bounds += [wrong, found]
    return bounds


def _verdict(rng: np.random.Generator, deviation: float, past: int, slower: float) -> str:
    """Return the verdict on three runs a side, where a run of B takes so many times as long."""
    a, b = np.exp(deviation * rng.standard_normal((2, 3)))
    normal = spread_of_levels([deviation * rng.standard_normal(past)]) if past else None
    evidence = from_repetitions(a.tolist(), (slower * b).tolist(), "runs", (normal, normal))
    assert evidence is not None
    return judge(evidence.speed, EQUIVALENCE)[0]


def _in_rounds(rng: np.random.Generator, draw: Draw, counts: list[int]) -> Values:
    """Draw the samples of so many processes, which differ by 3 %."""
    return np.concatenate([np.exp(0.03 * rng.standard_normal()) * draw(rng, count) for count in counts])
