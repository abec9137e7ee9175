"""Number of cores that a device needs, from a model of throughput against cores with the limit of the device.

    rate(n) = min( a / (σ + (1 − σ)/n), D )

a is the rate on one core and σ the serial share of the host's work (Amdahl, "Validity of the single processor
approach", AFIPS 1967). D is the maximum rate of the device, since the slower stage limits a pipeline (as in Williams,
Waterman & Patterson, "Roofline", Communications of the ACM 52 (2009)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.records.stored import Stored
from accelbench.profiling.timing.statistics import CONFIDENCE

Answer = Literal["reached", "not reached", "inconclusive"]
"""Whether the number of cores is within the measured range."""
Array = NDArray[np.float64]

MIN_COUNTS = 3
"""Smallest number of different core counts: two points fit any law."""
NEAR = 0.95
"""Share of the saturated rate at the knee, the smallest number of cores with at least this share."""
REPLICATES = 400
"""Number of bootstrap replicates."""
EQUAL_FIT = 1e-6
"""Difference of mean squared log residuals, (0.1 %)², below which two laws fit equally well."""
MISFIT = 0.1
"""Largest root mean square deviation from the law with which it is used."""
SERIAL = np.linspace(0.0, 1.0, 101)
"""Values of σ in the fit."""
MAX_KNEE = 1 << 16


@dataclass(frozen=True)
class Law:
    """Throughput as a function of the number of cores."""

    one_core: float
    """The rate on one core, a."""
    serial: float
    """The serial share of the host's work, σ."""
    limit: float
    """The maximum rate of the device, D; infinite if the rate does not saturate."""

    def rate(self, cores: float) -> float:
        return min(self.one_core / (self.serial + (1 - self.serial) / cores), self.limit)

    @property
    def saturated(self) -> float:
        """Return the rate with an unlimited number of cores."""
        scaled = self.one_core / self.serial if self.serial > 0 else np.inf
        return float(min(scaled, self.limit))

    def knee(self, near: float = NEAR) -> float:
        """Return the smallest number of cores with that share of the saturated rate; infinite if there is none."""
        wanted = near * self.saturated
        if not np.isfinite(wanted):
            return np.inf
        # a/(σ + (1 − σ)/n) = wanted, solved for n
        rest = self.one_core / wanted - self.serial
        exact = (1 - self.serial) / rest if rest > 0 else np.inf
        return float(max(1, np.ceil(round(exact, 9)))) if exact < MAX_KNEE else np.inf


class Cores(Stored):
    """Number of cores that a device needs, and the loss with the available cores."""

    answer: Answer
    reason: str | None = None
    """The reason why the answer is inconclusive."""
    measured_up_to: int
    """The largest measured number of cores."""
    knee: int | None = None
    """The smallest number of cores with `NEAR` of the saturated rate; `knee_low` and `knee_high` are its interval."""
    knee_low: int | None = None
    knee_high: int | None = None
    confidence: float = CONFIDENCE
    cores: int
    """The number of available cores."""
    lost: float | None = None
    """The share of the saturated rate lost with the available cores; a lower bound if the knee is not reached."""
    lost_low: float | None = None
    lost_high: float | None = None
    one_core: float | None = None
    """The fitted rate on one core, a."""
    serial: float | None = None
    """The fitted serial share of the host's work, σ."""
    limit: float | None = None
    """The fitted maximum rate of the device, D; null if the rate does not saturate."""
    misfit: float | None = None
    """The root mean square relative deviation of the medians from the law."""

    def sentence(self) -> str:
        """Return the answer as text."""
        if self.answer == "inconclusive":
            return f"inconclusive number of cores: {self.reason}"
        lost = "" if self.lost is None else f"{max(0.0, self.lost):.0%} of the throughput is lost"
        if self.answer == "not reached":
            return f"needs more than {self.measured_up_to} cores; available: {self.cores}" + (
                f" (at least {lost})" if lost else ""
            )
        low, high = self.knee_low, self.knee_high
        interval = "" if low == high else f" ({low}–{high})"
        return f"needs {self.knee} core{'s' * (self.knee != 1)}{interval}; available: {self.cores} ({lost})"


def needed_cores(samples: Mapping[int, Sequence[float]], cores: int | None = None, seed: int = 0) -> Cores:
    """Return the number of cores that the device needs, from samples of throughput by number of cores.

    `cores` is the number of available cores, by default the largest measured number. The intervals are percentile
    bootstrap intervals over the samples of each number of cores (Efron & Tibshirani, "An Introduction to the Bootstrap"
    (1993), ch. 13) and contain all laws that fit a replicate equally well. Raises ValueError for a sample that is not
    positive and finite, or a number of cores below 1.
    """
    counts = np.array(sorted(samples), dtype=np.float64)
    rates = [np.asarray(samples[int(count)], dtype=np.float64) for count in counts]
    if not rates or counts.min() < 1 or any(len(r) == 0 or not (np.isfinite(r) & (r > 0)).all() for r in rates):
        raise ValueError("each number of cores must be at least 1 and have positive and finite samples")
    most = int(counts[-1])
    have = most if cores is None else cores
    if len(counts) < MIN_COUNTS:
        reason = f"measured with {len(counts)} different numbers of cores, and at least {MIN_COUNTS} are required"
        return Cores(answer="inconclusive", reason=reason, measured_up_to=most, cores=have)
    medians = np.array([np.median(rate) for rate in rates])
    variance = median_variance(rates)
    law = fit(counts, medians, variance)[0]
    misfit = float(np.sqrt(np.mean(np.log([law.rate(n) for n in counts] / medians) ** 2)))
    found = Cores(
        answer="inconclusive",
        measured_up_to=most,
        cores=have,
        one_core=law.one_core,
        serial=law.serial,
        limit=law.limit if np.isfinite(law.limit) else None,
        misfit=misfit,
    )
    if misfit > MISFIT:
        return found.model_copy(update={"reason": f"the rates deviate from the model by {misfit:.0%}"})
    return found.model_copy(update=_answer(law, _replicates(counts, rates, variance, seed), most, have, medians))


def _answer(law: Law, replicates: list[list[Law]], most: int, have: int, medians: Array) -> dict[str, object]:
    knees = [[each.knee() for each in laws] for laws in replicates]
    tail = (1 - CONFIDENCE) / 2
    low = _order(sorted(min(each) for each in knees), tail)
    high = _order(sorted(max(each) for each in knees), 1 - tail)
    if low > most:
        # The saturated rate is unknown, but at least the fastest measured rate.
        at_least = 1 - law.rate(have) / float(medians.max()) if have < most else None
        return {"answer": "not reached", "lost": at_least}
    if high > most:
        return {"reason": f"the samples vary too much to decide whether the rate grows beyond {most} cores"}
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
    """Return the laws with the least squares of log residuals: the best one first, then those that fit equally well.

    For each σ and each number of points on the scaling branch, a and D are geometric means, which are the least-squares
    solutions of their branches. `variance` is the variance of the rates' logarithms by noise. The limit D is a further
    parameter, included only if it improves Schwarz's criterion, m·ln(error) + parameters·ln(m) (Annals of Statistics 6
    (1978)), in which errors below the noise count as the noise.
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
            # A limit hardly below the scaling branch at the last point is indistinguishable from none.
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
    """Return the mean variance of a median's logarithm, π/2 · s²/n; 0 for single samples."""
    known = [float(np.log(rate).var(ddof=1)) / len(rate) for rate in rates if len(rate) > 1]
    return np.pi / 2 * float(np.mean(known)) if known else 0.0


def _order(values: Sequence[float], quantile: float) -> float:
    """Return the order statistic nearest to a quantile, without interpolation, since values may be infinite."""
    return float(values[round(quantile * (len(values) - 1))])
