"""Ratio of the speeds of two sides, with an interval for the highest level of repetition.

Processes vary more than the samples of one process, and runs vary more than the repetitions of one run (Kalibera &
Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). The interval is therefore computed from several runs per
side; without them, from several repetitions, widened by the known or assumed spread between runs. One process per side
has no interval of its own and decides nothing. All computations use logarithms, in which a ratio is a difference.

Simulated error rates (`make bench-self PART=statistics`) for three runs per side with a spread of 1.7, 3.0 and 4.7 %:
1–3 % of the points without a difference are called faster or slower; 10 % more work is detected at 99, 72 and 37 % of
the points. With a history of ten runs: 2–5 %; 99, 89 and 56 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean, geometric_mean, variance

from scipy.special import fdtri, stdtr

from accelbench.history.spread import Spread
from accelbench.profiling.timing.statistics import CONFIDENCE, Estimate, student_quantile

ASSUMED_SPREAD = 0.05
"""Standard deviation between runs that is assumed with neither several runs nor a history.

Eight new processes of one point on a quiet machine had 1.7–4.7 %, for each of six points. With the intervals of the
repetitions alone, consecutive runs of the same code were called different at 6 of 93 points; with this assumption, at
1 of 51.
"""
MEMORY_DRIFT = 0.03
"""Standard deviation of a side that is assumed for memory bandwidth on a virtual machine, besides its own spread.

Other guests of the host share the memory. Of an addition of arrays, compared as three runs with the next three of the
same code, 10 of 55 pairs were called different without it, and 1 with it.
"""
ROUNDED_CONFIDENCE = CONFIDENCE - 1e-3
"""Minimum coverage of a record's interval; the stored coverage is rounded."""
ONE_PROCESS = "one process a side; use --rounds 3 or `accelbench pair`"
"""Reason for no verdict on one process per side: processes of the same code had 36 to 55 GB/s on one machine."""
NORMAL_FREEDOM = 1e9
"""Degrees of freedom at which Student's t is the normal distribution."""


@dataclass(frozen=True)
class Evidence:
    """Estimate of the logarithm of B's speed relative to A's, with its standard error."""

    shift: float
    """The estimate: ln(speed of B / speed of A)."""
    error: float
    """Standard error of the estimate."""
    freedom: float
    """Degrees of freedom of the standard error."""
    basis: str
    """Observations from which the interval is computed, as text: `3 and 3 runs`."""
    assumption: str | None = None
    """Assumption that may change the verdict, as text; None without one."""
    undecided: str | None = None
    """Reason why the evidence is too weak for any verdict, as text; None if a verdict may be based on it."""
    costs: tuple[float, float] | None = None
    """Cost of A and of B in seconds, the ratio of which is the estimate; None if the estimate has several parts."""

    @property
    def speed(self) -> Estimate:
        """Return B's speed relative to A's with its interval."""
        half = self.error * student_quantile(self.freedom, CONFIDENCE)
        return Estimate(exp(self.shift - half), exp(self.shift + half), CONFIDENCE, exp(self.shift))

    @property
    def p(self) -> float:
        """Return the two-sided p value (Student's t) under the hypothesis of equal speeds."""
        if self.shift == 0:
            return 1.0
        return 2 * float(stdtr(self.freedom, -abs(self.shift) / self.error)) if self.error else 0.0


def from_repetitions(
    a: Sequence[float], b: Sequence[float], what: str, normal: tuple[Spread | None, Spread | None] = (None, None)
) -> Evidence | None:
    """Return the evidence from the costs of several runs or repetitions per side; None if neither side has two.

    Welch's t (Welch, "The generalization of 'Student's' problem", Biometrika 34 (1947)). The variance of a side is
    pooled with the variance of past runs on its machine (`normal`). A side with one cost and no past runs gets the
    other side's variance.
    """
    if max(len(a), len(b)) < 2:
        return None
    logs = [[log(cost) for cost in side] for side in (a, b)]
    shift, basis = fmean(logs[0]) - fmean(logs[1]), f"{len(a)} and {len(b)} {what}"
    costs = geometric_mean(a), geometric_mean(b)
    if all(normal):
        basis += " and the spread between past runs"
    found = [_variance(side, past) for side, past in zip(logs, normal, strict=True)]
    known = [each for each in found if each]
    if len(known) == 1:
        ((of_one, freedom),) = known
        single = "B" if found[0] else "A"
        assumption = f"{single} has only one of the {what}: the spread of the other side is assumed for it"
        error = (of_one * (1 / len(a) + 1 / len(b))) ** 0.5
        return Evidence(shift, error, freedom, basis, assumption, costs=costs)
    parts = [(of_one / len(side), freedom) for side, (of_one, freedom) in zip(logs, known, strict=True)]
    return Evidence(shift, sum(part for part, _ in parts) ** 0.5, _freedom(parts), basis, costs=costs)


def _variance(figures: Sequence[float], normal: Spread | None) -> tuple[float, float] | None:
    """Return the variance of one value with its degrees of freedom; None for a single value without past runs.

    Past runs are ignored if the values vary significantly more than they did (F test).
    """
    freedom = len(figures) - 1
    if not freedom:
        return (normal.deviation**2, normal.freedom) if normal else None
    own = variance(figures)
    if normal is None or own > normal.deviation**2 * float(fdtri(freedom, normal.freedom, CONFIDENCE)):
        return own, freedom
    weight = freedom + normal.freedom
    return (own * freedom + normal.deviation**2 * normal.freedom) / weight, weight


def from_processes(a: float, b: float) -> Evidence:
    """Return the evidence from the cost of one process per side, with an assumed spread; it allows no verdict."""
    evidence = Evidence(log(a / b), 0.0, NORMAL_FREEDOM, "one process each", undecided=ONE_PROCESS, costs=(a, b))
    return with_assumed_spread(evidence, "processes")


def with_assumed_spread(evidence: Evidence, what: str) -> Evidence:
    """Return evidence of one process or one run per side, widened by `ASSUMED_SPREAD`."""
    assumption = (
        f"a spread of {ASSUMED_SPREAD:.0%} between {what} is assumed, as none is known: give several runs per side, or "
        "keep past runs under runs/"
    )
    assumed = Spread(ASSUMED_SPREAD, NORMAL_FREEDOM, 0)
    return replace(_widened(evidence, assumed, assumed), assumption=assumption)


def with_memory_drift(evidence: Evidence) -> Evidence:
    """Return evidence of runs that do not alternate between the sides, widened by `MEMORY_DRIFT`."""
    drift = Spread(MEMORY_DRIFT, NORMAL_FREEDOM, 0)
    assumption = (
        f"a spread of {MEMORY_DRIFT:.0%} between the sides is assumed, as other guests of the host share the memory: "
        "alternate the runs of A and B, or use `accelbench pair`"
    )
    texts = filter(None, (evidence.assumption, assumption))
    return replace(_widened(evidence, drift, drift), assumption="; ".join(texts))


def with_history(evidence: Evidence, a: Spread, b: Spread) -> Evidence:
    """Return evidence of one run per side, widened by the spread between past runs on each side's machine."""
    basis = f"{evidence.basis} and the spread between past runs"
    return replace(_widened(evidence, a, b), basis=basis, assumption=None)


def _widened(evidence: Evidence, a: Spread, b: Spread) -> Evidence:
    parts = [(evidence.error**2, evidence.freedom), (a.deviation**2, a.freedom), (b.deviation**2, b.freedom)]
    return replace(evidence, error=sum(part for part, _ in parts) ** 0.5, freedom=_freedom(parts))


def _freedom(parts: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of (variance, degrees of freedom).

    Source: Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics 2 (1946).
    """
    weight = sum(part**2 / freedom for part, freedom in parts)
    return min(NORMAL_FREEDOM, sum(part for part, _ in parts) ** 2 / weight) if weight else NORMAL_FREEDOM
