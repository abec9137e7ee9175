"""What two sides of a comparison tell: the ratio of their speeds, and an interval for the level at which they vary.

Processes differ by more than the samples of one show, and runs by more than the rounds of one (Kalibera & Jones,
"Rigorous Benchmarking in Reasonable Time", ISMM 2013). So the highest level that was repeated decides: several runs a
side, else several rounds, else the samples of one process each, widened by what is known or assumed of runs. All of it
works on logarithms, in which a ratio is a difference.

By simulation (`make bench-self PART=statistics`), three runs a side that differ by 1.7, 3.0 and 4.7 %: 1 to 3 % of the
points without a difference are called faster or slower, and a tenth more work is found at 99, 72 and 37 % of them. Once
ten past runs tell the spread, too, these are 2 to 5 %, and 99, 89 and 56 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from statistics import fmean, variance

from scipy.special import fdtri, stdtr

from accelbench.history.spread import Spread
from accelbench.profiling.analysis.cost import by_fastest
from accelbench.profiling.records.record import Record
from accelbench.profiling.timing.statistics import CONFIDENCE, Estimate, student_quantile

ASSUMED_SPREAD = 0.05
"""The standard deviation assumed from run to run where neither several runs nor history tell it.

Eight fresh processes of the same point on a quiet machine had 1.7 to 4.7 %, for each of six points. By their rounds
alone, runs of the same code one after the other were told apart at 6 of 93 points, and at 1 of 51 with this.
"""
ROUNDED_CONFIDENCE = CONFIDENCE - 1e-3
"""The coverage that an interval of a record must have, which is rounded."""
LESS_SURE = 1.69
"""The standard error of the 5 % quantile of normal samples over that of their median: √(0.05·0.95) / φ(−1.645) over
√(0.5·0.5) / φ(0). What is skewed to slow samples, as times are, has a sharper lower end."""
MANY = 1e9
"""Degrees of freedom at which Student's t is the normal distribution."""


@dataclass(frozen=True)
class Evidence:
    """An estimate of the logarithm of the speed of B over that of A, and what it stands on."""

    shift: float
    """The estimate."""
    error: float
    """The standard error of the estimate."""
    freedom: float
    """The degrees of freedom of the standard error."""
    basis: str
    """What the interval covers, in words: `3 and 3 runs`."""
    unknown: str | None = None
    """What is not known and may change the answer, as a sentence; None where nothing is."""

    @property
    def speed(self) -> Estimate:
        """Return the speed of B over that of A with its interval."""
        return self.speed_at(CONFIDENCE)

    def speed_at(self, confidence: float) -> Estimate:
        """Return the speed of B over that of A with the interval of that confidence."""
        half = self.error * student_quantile(self.freedom, confidence)
        return Estimate(exp(self.shift - half), exp(self.shift + half), confidence, exp(self.shift))

    @property
    def p(self) -> float:
        """Return the two-sided p value, by Student's t, of an estimate so far from no difference."""
        if self.shift == 0:
            return 1.0
        return 2 * float(stdtr(self.freedom, -abs(self.shift) / self.error)) if self.error else 0.0


def from_repetitions(
    a: Sequence[float], b: Sequence[float], what: str, normal: tuple[Spread | None, Spread | None] = (None, None)
) -> Evidence | None:
    """Return what the costs of several runs, or rounds, of each side tell; None if neither side has two.

    Welch's t (Welch, "The generalization of 'Student's' problem", Biometrika 34 (1947)). The variance of a side is its
    own, pooled with that of past runs where it is `normal` on the side's machine; a side of one, of which no past is
    known, takes that of the other.
    """
    if max(len(a), len(b)) < 2:
        return None
    logs = [[log(cost) for cost in side] for side in (a, b)]
    shift, basis = fmean(logs[0]) - fmean(logs[1]), f"{len(a)} and {len(b)} {what}"
    if all(normal):
        basis += ", and the spread of past runs here"
    found = [_variance(side, past) for side, past in zip(logs, normal, strict=True)]
    known = [each for each in found if each]
    if len(known) == 1:
        ((of_one, freedom),) = known
        lone = "B" if found[0] else "A"
        unknown = f"{lone} has one of the {what} only, and is taken to vary as the other side does"
        return Evidence(shift, (of_one * (1 / len(a) + 1 / len(b))) ** 0.5, freedom, basis, unknown)
    parts = [(of_one / len(side), freedom) for side, (of_one, freedom) in zip(logs, known, strict=True)]
    return Evidence(shift, sum(part for part, _ in parts) ** 0.5, _freedom(parts), basis)


def _variance(figures: Sequence[float], normal: Spread | None) -> tuple[float, float] | None:
    """Return the variance of one figure with its degrees of freedom; None of a single figure without a known past.

    The past does not count where these vary more than it explains: then something is rougher than it was.
    """
    freedom = len(figures) - 1
    if not freedom:
        return (normal.deviation**2, normal.freedom) if normal else None
    own = variance(figures)
    if normal is None or own > normal.deviation**2 * float(fdtri(freedom, normal.freedom, CONFIDENCE)):
        return own, freedom
    weight = freedom + normal.freedom
    return (own * freedom + normal.deviation**2 * normal.freedom) / weight, weight


def from_intervals(a: Record, b: Record, shift: float) -> Evidence | None:
    """Return what one process each tells of a speed that has that estimate, by the intervals of the two figures.

    Those are of medians: where the fastest samples are compared they are taken to be as much wider as a low quantile is
    less sure. None where a record has too few samples for an interval of that confidence.
    """
    errors = []
    for record in (a, b):
        timing = record.timing
        if timing is None or timing.execution.confidence < ROUNDED_CONFIDENCE:
            return None
        half = log(timing.execution.high / timing.execution.low) / 2
        error = half / student_quantile(MANY, timing.execution.confidence)
        errors.append(error * (LESS_SURE if by_fastest(timing) else 1))
    return Evidence(shift, hypot(*errors), MANY, "one process each")


def with_assumed_spread(evidence: Evidence, what: str) -> Evidence:
    """Widen what one process, or one run, each tells by what such are assumed to differ by."""
    unknown = (
        f"how much {what} differ here is not known, {ASSUMED_SPREAD:.0%} is assumed: give several runs a side, or keep "
        "past runs under runs"
    )
    assumed = Spread(ASSUMED_SPREAD, MANY, 0)
    return replace(_widened(evidence, assumed, assumed), unknown=unknown)


def with_history(evidence: Evidence, a: Spread, b: Spread) -> Evidence:
    """Widen what one run each tells by what runs have differed by on their machines."""
    told = f"{evidence.basis}, and the spread of past runs here"
    return replace(_widened(evidence, a, b), basis=told, unknown=None)


def _widened(evidence: Evidence, a: Spread, b: Spread) -> Evidence:
    parts = [(evidence.error**2, evidence.freedom), (a.deviation**2, a.freedom), (b.deviation**2, b.freedom)]
    return replace(evidence, error=sum(part for part, _ in parts) ** 0.5, freedom=_freedom(parts))


def _freedom(parts: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of variances that have their own.

    Source: Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics 2 (1946).
    """
    weight = sum(part**2 / freedom for part, freedom in parts)
    return min(MANY, sum(part for part, _ in parts) ** 2 / weight) if weight else MANY
