"""The comparison of one point in two runs: B is faster or slower than A, the same, or it cannot be told.

The answer stands on a distribution-free interval of the speed ratio and on a rank test, both over the raw samples.
Samples of one run say nothing about how much whole runs differ; the margin of equivalence is there for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from accelbench.format import percent
from profiling.records.quality import Metric
from profiling.records.record import Record
from profiling.records.work import Figure
from profiling.timing.statistics import RatioInterval, mann_whitney_p, ratio_interval, smallest_p

Verdict = Literal["slower", "faster", "same", "cannot tell"]

SIGNIFICANT_P = 0.002
"""The p value that asv (airspeed velocity) asks of the same test: a run has many points, and each may err."""
INTERVAL_CONFIDENCE = 0.99
LEAST_CONFIDENCE = 0.95
"""An interval of few samples that covers less than this is shown, and nothing is concluded from it."""
CLOCK_TOLERANCE = 0.03


@dataclass(frozen=True)
class Change:
    """One point measured in both runs."""

    a: Record
    b: Record
    verdict: Verdict
    reason: str | None
    """The reason why it cannot be told; None where it can."""
    speed: RatioInterval | None
    """The speed of B over the speed of A, which is the time of A over the time of B where both do the same work."""
    p: float | None
    notes: tuple[str, ...]
    """The circumstances to keep in mind: noise, other clocks, other work."""
    qualities: dict[str, tuple[Metric, Metric]]
    """The metrics that say how good the trained model is, in A and in B."""

    @property
    def point(self) -> str:
        return str(self.a.point)


def compare_point(a: Record, b: Record, equivalence: float) -> Change:
    """Return how the speed changed between two measured records of the same point."""
    speed, p = None, None
    verdict: Verdict = "cannot tell"
    costs_a, costs_b = _costs(a, b)
    if not costs_a or not costs_b:
        reason: str | None = "a record without usable samples"
    else:
        speed, p = ratio_interval(costs_b, costs_a, INTERVAL_CONFIDENCE), mann_whitney_p(costs_a, costs_b)
        verdict, reason = judge(speed, p, len(costs_a), len(costs_b), equivalence)
    return Change(a, b, verdict, reason, speed, p, tuple(_notes(a, b)), _qualities(a, b))


def judge(speed: RatioInterval, p: float, n: int, m: int, equivalence: float) -> tuple[Verdict, str | None]:
    """Return the verdict on a speed ratio estimated from n and m samples, and the reason where it cannot be told.

    The same: the interval lies within (1 − e, 1 / (1 − e)), which is one band seen from either run. Faster or slower:
    the interval lies on one side of 1, the rank test is significant, and the ratio is outside that band.
    """
    least, most = 1 - equivalence, 1 / (1 - equivalence)
    if speed.confidence < LEAST_CONFIDENCE:
        return "cannot tell", (
            f"too few samples ({n} and {m}): the interval covers the truth with {speed.confidence:.0%} only; "
            f"{_samples_for(1 - LEAST_CONFIDENCE)} of each would do"
        )
    if least <= speed.low and speed.high <= most:
        return "same", None
    if speed.low <= 1 <= speed.high:
        return "cannot tell", "the interval reaches from slower to faster"
    side: Verdict = "slower" if speed.high < 1 else "faster"
    if least <= speed.ratio <= most:
        return "cannot tell", f"{side}, but perhaps by no more than the {percent(equivalence)} that count as the same"
    if smallest_p(n, m) >= SIGNIFICANT_P:
        return "cannot tell", (
            f"it looks {side}, but too few samples: {n} and {m} reach p = {smallest_p(n, m):.2g} at best and not "
            f"{SIGNIFICANT_P:g}; {_samples_for(SIGNIFICANT_P)} of each would do"
        )
    if p >= SIGNIFICANT_P:
        return "cannot tell", f"it looks {side}, but p = {p:.2g} of the rank test is not below {SIGNIFICANT_P:g}"
    return side, None


def _samples_for(p: float) -> int:
    """Return the least size of two equal sets whose rank test can reach below p."""
    return next(n for n in count(1) if smallest_p(n, n) < p)


def _costs(a: Record, b: Record) -> tuple[list[float], list[float]]:
    """Return the seconds per execution of both records.

    Where the executions differ in their work, as with arrays sized to a machine, return the seconds per unit of work.
    """
    work_a, work_b = _amount(a, a.figure), _amount(b, a.figure)
    if not work_a or not work_b or work_a == work_b:
        work_a = work_b = 1.0
    return _usable(a, work_a), _usable(b, work_b)


def _usable(record: Record, work: float) -> list[float]:
    """Return the samples over the work; none of them if one is no duration."""
    samples = record.timing.samples if record.timing else []
    return [sample / work for sample in samples] if all(0 < s < math.inf for s in samples) else []


def _amount(record: Record, figure: Figure) -> float | None:
    """Return the flops, bytes or items that one execution is rated by; None of a time, or where they are unknown."""
    return record.work.amount(figure) if record.work and figure != "time" else None


def _notes(a: Record, b: Record) -> Iterator[str]:
    for name, record in (("A", a), ("B", b)):
        yield from (f"{name} is noisy: {flag}" for flag in record.noise)
    work_a, work_b = _amount(a, a.figure), _amount(b, a.figure)
    if work_a and work_b and work_a != work_b:
        yield f"one execution is {work_a:.4g} {a.figure} in A and {work_b:.4g} in B, so the rates are compared"
    elif bool(work_a) != bool(work_b):
        yield "the work of one execution is known in one run only, so the times are compared as they are"
    if a.timing and b.timing and a.timing.timer != b.timing.timer:
        yield f"timed by {a.timing.timer} in A and by {b.timing.timer} in B"
    gauges_a, gauges_b = (r.telemetry.gauges if r.telemetry else {} for r in (a, b))
    for name in sorted(gauges_a.keys() & gauges_b.keys()):
        clock_a, clock_b = gauges_a[name], gauges_b[name]
        apart = abs(clock_a.median - clock_b.median) > CLOCK_TOLERANCE * max(clock_a.median, clock_b.median)
        if name.endswith("clock") and apart:
            yield f"{name} was {clock_a.median:.4g} {clock_a.unit} in A and {clock_b.median:.4g} {clock_b.unit} in B"


def _qualities(a: Record, b: Record) -> dict[str, tuple[Metric, Metric]]:
    named = [quality.name for quality in a.qualities if quality.name in a.metrics]
    return {name: (a.metrics[name], b.metrics[name]) for name in named if name in b.metrics}
