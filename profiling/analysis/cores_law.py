"""Number of cores that a device needs: a law of throughput against cores, up to the limit of the device.

    rate(n) = min( a / (σ + (1 − σ)/n), D )

a is the rate on one core and σ the share of the host's work that does not spread over cores (Amdahl, "Validity of the
single processor approach", AFIPS 1967); D is what the device takes at most, as the slower of two stages in a pipeline
limits both (the bound of Williams, Waterman & Patterson, "Roofline", Communications of the ACM 52 (2009)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.records.stored import Stored
from accelbench.profiling.timing.statistics import CONFIDENCE

Answer = Literal["reached", "not reached", "cannot tell"]
Array = NDArray[np.float64]

MIN_COUNTS = 3
"""The least number of core counts: two points fit any law."""
NEAR = 0.95
"""The share of the saturated rate that the knee reaches: it is the least number of cores that does."""
REPLICATES = 400
EQUAL_FIT = 1e-6
"""The difference of mean squared log residuals, (0.1 %)², below which no measurement tells two laws apart."""
MISFIT = 0.1
"""The largest typical deviation from the law with which it still says something."""
SERIAL = np.linspace(0.0, 1.0, 101)
"""The values of σ that are tried."""
MAX_KNEE = 1 << 16


@dataclass(frozen=True)
class Law:
    """The throughput as a function of cores."""

    one_core: float
    """The rate on one core, a."""
    serial: float
    """The share of the host's work that does not spread over cores, σ."""
    limit: float
    """The rate that the device takes at most, D; infinite where no point shows it."""

    def rate(self, cores: float) -> float:
        return min(self.one_core / (self.serial + (1 - self.serial) / cores), self.limit)

    @property
    def saturated(self) -> float:
        """Return the rate with as many cores as one likes."""
        scaled = self.one_core / self.serial if self.serial > 0 else np.inf
        return float(min(scaled, self.limit))

    def knee(self, near: float = NEAR) -> float:
        """Return the least whole number of cores with that share of the saturated rate; infinite if there is none."""
        wanted = near * self.saturated
        if not np.isfinite(wanted):
            return np.inf
        # a/(σ + (1 − σ)/n) = wanted, solved for n
        rest = self.one_core / wanted - self.serial
        exact = (1 - self.serial) / rest if rest > 0 else np.inf
        return float(max(1, np.ceil(round(exact, 9)))) if exact < MAX_KNEE else np.inf


class Cores(Stored):
    """The number of cores that feed the device, and what the cores there are cost."""

    answer: Answer
    reason: str | None = None
    """The reason why it cannot be told."""
    measured_up_to: int
    knee: int | None = None
    knee_low: int | None = None
    knee_high: int | None = None
    confidence: float = CONFIDENCE
    cores: int
    """The number of cores that the runtime has."""
    lost: float | None = None
    """The share of the saturated rate that is lost with these; where the knee was not reached, at least this much."""
    lost_low: float | None = None
    lost_high: float | None = None
    one_core: float | None = None
    """The rate on one core, a, of the law that was fitted."""
    serial: float | None = None
    """The law's σ, the share of the host's work that does not spread over cores."""
    limit: float | None = None
    """The law's D, the rate that the device takes at most; null where no point shows it."""
    misfit: float | None = None
    """The root of the mean square relative deviation of the medians from the law."""

    def sentence(self) -> str:
        """Return the answer in words."""
        if self.answer == "cannot tell":
            return f"cannot tell how many cores it needs: {self.reason}"
        lost = "" if self.lost is None else f"{max(0.0, self.lost):.0%} of its speed is lost"
        if self.answer == "not reached":
            return f"needs more than {self.measured_up_to} cores; the runtime has {self.cores}" + (
                f": at least {lost}" if lost else ""
            )
        low, high = self.knee_low, self.knee_high
        interval = "" if low == high else f" ({low} to {high})"
        return f"fed from {self.knee} core{'s' * (self.knee != 1)} on{interval}; the runtime has {self.cores}: {lost}"


def needed_cores(samples: Mapping[int, Sequence[float]], cores: int | None = None, seed: int = 0) -> Cores:
    """Return the knee, from samples of throughput (any unit per second) by the number of cores they were taken with.

    `cores` is what the runtime has, the most measured if not given. The intervals are of the percentile bootstrap over
    each count's samples (Efron & Tibshirani, "An Introduction to the Bootstrap" (1993), ch. 13), and hold every law
    that fits a replicate equally well. ValueError for a sample that is not positive and finite, or a count below 1.
    """
    counts = np.array(sorted(samples), dtype=np.float64)
    rates = [np.asarray(samples[int(count)], dtype=np.float64) for count in counts]
    if not rates or counts.min() < 1 or any(len(r) == 0 or not (np.isfinite(r) & (r > 0)).all() for r in rates):
        raise ValueError("every number of cores, from 1, needs samples that are positive and finite")
    most = int(counts[-1])
    have = most if cores is None else cores
    if len(counts) < MIN_COUNTS:
        reason = f"it was measured with {len(counts)} of the {MIN_COUNTS} different numbers of cores that a law needs"
        return Cores(answer="cannot tell", reason=reason, measured_up_to=most, cores=have)
    medians = np.array([np.median(rate) for rate in rates])
    variance = median_variance(rates)
    law = fit(counts, medians, variance)[0]
    misfit = float(np.sqrt(np.mean(np.log([law.rate(n) for n in counts] / medians) ** 2)))
    found = Cores(
        answer="cannot tell",
        measured_up_to=most,
        cores=have,
        one_core=law.one_core,
        serial=law.serial,
        limit=law.limit if np.isfinite(law.limit) else None,
        misfit=misfit,
    )
    if misfit > MISFIT:
        return found.model_copy(update={"reason": f"the rates deviate from the law by {misfit:.0%}"})
    return found.model_copy(update=_answer(law, _replicates(counts, rates, variance, seed), most, have, medians))


def _answer(law: Law, replicates: list[list[Law]], most: int, have: int, medians: Array) -> dict[str, object]:
    knees = [[each.knee() for each in laws] for laws in replicates]
    tail = (1 - CONFIDENCE) / 2
    low = _order(sorted(min(each) for each in knees), tail)
    high = _order(sorted(max(each) for each in knees), 1 - tail)
    if low > most:
        # What the growth would lead to is not known, only that the fastest measured is less.
        at_least = 1 - law.rate(have) / float(medians.max()) if have < most else None
        return {"answer": "not reached", "lost": at_least}
    if high > most:
        return {"reason": f"the rate may or may not still grow beyond {most} cores: the samples spread too much"}
    losses = sorted(1 - each.rate(have) / each.saturated for laws in replicates for each in laws)
    return {
        "answer": "reached",
        "knee": int(min(max(law.knee(), low), high)),
        "knee_low": int(low),
        "knee_high": int(high),
        "lost": 1 - law.rate(have) / law.saturated,
        "lost_low": _order(losses, tail),
        "lost_high": _order(losses, 1 - tail),
    }


def _replicates(counts: Array, rates: list[Array], variance: float, seed: int) -> list[list[Law]]:
    """Return the laws that fit each bootstrap replicate."""
    rng = np.random.default_rng(seed)
    return [
        fit(counts, np.array([np.median(rng.choice(rate, len(rate))) for rate in rates]), variance)
        for _ in range(REPLICATES)
    ]


def fit(counts: Array, rates: Array, variance: float = 0.0) -> list[Law]:
    """Return the laws closest to these rates in the logarithm, the best first, then those that are as good.

    For each σ and each number of points on the scaling branch, a and D are geometric means, the least squares of their
    branches. `variance` is that of the rates' logarithms by their noise. A limit is one parameter more, which has to
    earn its place by Schwarz's criterion, m·ln(error) + parameters·ln(m) (Annals of Statistics 6 (1978)), where
    errors below the noise count as the noise.
    """
    points = len(counts)
    scaling = -np.log(SERIAL[:, None] + (1 - SERIAL[:, None]) / counts[None, :])
    logs = np.log(rates)
    ones, limits, errors = [], [], []
    for branch in range(1, points + 1):
        a = (logs[:branch] - scaling[:, :branch]).mean(axis=1)
        limit = logs[branch:].mean() if branch < points else np.inf
        error = ((np.minimum(a[:, None] + scaling, limit) - logs) ** 2).mean(axis=1)
        if branch < points:
            # A limit that the scaling law hardly exceeds is no more than its last point.
            error = np.where(a + scaling[:, -1] + np.log(NEAR) < limit, np.inf, error)
        ones.append(a)
        limits.append(np.full(len(SERIAL), limit))
        errors.append(error)
    floor = variance + EQUAL_FIT
    if min(error.min() for error in errors[:-1]) + floor > (errors[-1].min() + floor) * points ** (-1 / points):
        errors[:-1] = [np.full(len(SERIAL), np.inf)] * (points - 1)
    error, one, limit_of = np.concatenate(errors), np.exp(np.concatenate(ones)), np.exp(np.concatenate(limits))
    order = np.argsort(error, kind="stable")
    good = order[error[order] <= error[order[0]] + EQUAL_FIT]
    return [Law(float(one[i]), float(SERIAL[i % len(SERIAL)]), float(limit_of[i])) for i in good]


def median_variance(rates: list[Array]) -> float:
    """Return the variance of a median's logarithm by its samples' spread, π/2 · s²/n; 0 from single samples."""
    known = [float(np.log(rate).var(ddof=1)) / len(rate) for rate in rates if len(rate) > 1]
    return np.pi / 2 * float(np.mean(known)) if known else 0.0


def _order(values: Sequence[float], quantile: float) -> float:
    """Return the order statistic nearest to that quantile; no mean of two, as one may be infinite."""
    return float(values[round(quantile * (len(values) - 1))])
