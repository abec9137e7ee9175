"""Time course of a point's samples: one speed throughout, a drift, two speeds, or bursts.

With a drift or two speeds the median is not the speed of any execution. The false-positive rate of both tests is below
1 % for independent samples of any distribution and repetitions that differ by chance
(`make bench-self PART=statistics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import Samples, median_interval

Kind = Literal["steady", "drifts", "two speeds"]

DRIFT = 0.02
"""The change over a point, or between two speeds, below which nothing is said, however certain it is."""
LEAST_PART = 5
"""The least samples of a part that is told from another: the ranges of two fives part by chance in 0.8 % of cases."""
ROUNDS_P = 0.002
"""The p value of a trend over the rounds' medians, against what they differ by without one."""
BURSTS = 0.10
"""The least relative difference of mean and median step, and the least share of epoch boundaries, that is reported."""
LEAST_ROUNDS = 5
"""The least rounds that can show a trend or two speeds: fewer lie on a line, or in two heaps, too easily."""
LEAST_SAMPLES = 20
"""The least samples that can show two speeds: fewer leave gaps by chance."""
LEAST_SHARE = 0.1
"""The least share of the samples that is a speed of its own and no tail."""
TAIL = 0.05
"""The share of the samples at either end that does not decide where two speeds part."""
CLEAR = 1.0
"""The gap between two speeds over what both of them span, in logarithms, from which they are clearly apart."""
CLEAR_OF_ROUNDS = 6.0
"""The same ratio for rounds: five fresh processes part by so much in 0.2 % of cases, however much they differ."""
CARD_RESOLUTION = 1e-6
"""The seconds that the events of a GPU cannot tell apart: their clock makes two speeds of one kernel."""
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True)
class Speed:
    """One of the speeds that a point had."""

    seconds: float
    """The median of the samples, or of the rounds, that had this speed."""
    share: float
    """The share of the samples, or of the rounds."""


@dataclass(frozen=True)
class TimeCourse:
    """The judgement on a time course, the two speeds where there are two, and a sentence unless it is steady."""

    kind: Kind
    sentence: str = ""
    speeds: tuple[Speed, ...] = ()


def disturbances(record: Record, course: TimeCourse | None = None) -> list[str]:
    """Return, in words, what makes the record's figure doubtful: the noise flags, then the course of its samples.

    `course` is the judgement on the samples, where it is known already: finding it takes about a millisecond.
    """
    found = course or course_of(record)
    return [*record.noise, *([found.sentence] if found.sentence else [])]


def course_of(record: Record) -> TimeCourse:
    """Return the judgement on a record's samples; one without samples, or with a sample that is none, is steady.

    A training's steps may come in bursts by its nature, which is no disturbance: only a drift is looked for.
    """
    timing = record.timing
    if timing is None or not timing.samples or not all(0 < sample < float("inf") for sample in timing.samples):
        return TimeCourse("steady")
    counts = [part.count for part in record.rounds]
    if timing.timer == "steps":
        return _drift(_parts(timing.samples, counts)) or TimeCourse("steady")
    return course(timing.samples, counts, CARD_RESOLUTION if timing.timer == "nvbench" else 0.0)


def course(samples: Samples, counts_of_rounds: Sequence[int] = (), resolution: float = 0.0) -> TimeCourse:
    """Return the judgement on samples in the order measured, of one round or of rounds with so many samples each.

    `resolution` is the number of seconds that the clock cannot tell apart. `ValueError` if the counts do not add up to
    the samples, or if these are not positive.
    """
    rounds = _parts(samples, counts_of_rounds)
    return _two_speeds(rounds, resolution) or _drift(rounds) or TimeCourse("steady")


def _parts(samples: Samples, counts: Sequence[int]) -> list[NDArray[np.float64]]:
    x = np.asarray(samples, dtype=np.float64)
    if x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError("samples must be at least one, positive and finite")
    if not len(counts):
        return [x]
    if sum(counts) != len(x) or min(counts) < 1:
        raise ValueError(f"rounds of {', '.join(map(str, counts))} samples are not the {len(x)} that there are")
    return np.split(x, np.cumsum(counts)[:-1])


def _drift(rounds: Sequence[NDArray[np.float64]]) -> TimeCourse | None:
    change = _change_within(rounds)
    if change is not None:
        of = " of each round" if len(rounds) > 1 else ""
        return TimeCourse("drifts", f"it drifts: the last third{of} took {_longer(change)} than the first")
    change = _change_over([float(np.median(samples)) for samples in rounds])
    if change is not None:
        return TimeCourse("drifts", f"it drifts: samples took {_longer(change)} in the last round than in the first")
    return None


def _change_within(rounds: Sequence[NDArray[np.float64]]) -> float | None:
    """Return by what factor the last thirds of the rounds are slower than the first, if by more than chance.

    For one round the intervals of the two medians must be apart; for more, the mean of the changes must be so much
    larger than what the intervals leave open, as that of independent means would be. Thirds, since the halves of a
    steady drift touch each other.
    """
    long_enough = [samples for samples in rounds if len(samples) >= 2 * LEAST_PART]
    if not long_enough:
        return None
    ends = [_ends(samples) for samples in long_enough]
    change = float(np.mean([np.log(last.median / first.median) for first, last in ends]))
    if abs(change) <= np.log1p(DRIFT):  # most points, which need not be told from chance
        return None
    chance = float(np.mean([_by_chance(first, last, change > 0) for first, last in ends])) / len(ends) ** 0.5
    return float(np.exp(change)) if abs(change) > chance else None


class _Third(NamedTuple):
    """The first or the last third of a round's samples, and its median."""

    samples: NDArray[np.float64]
    median: float


def _ends(samples: NDArray[np.float64]) -> tuple[_Third, _Third]:
    part = max(LEAST_PART, len(samples) // 3)
    first, last = samples[:part], samples[-part:]
    return _Third(first, float(np.median(first))), _Third(last, float(np.median(last)))


def _by_chance(first: _Third, last: _Third, rises: bool) -> float:
    """Return how far chance alone may bring the logs of the two medians apart, upward or downward.

    It is the logs from the medians to the ends of their intervals that face each other.
    """
    lower, upper = (first, last) if rises else (last, first)
    of_lower, of_upper = median_interval(lower.samples), median_interval(upper.samples)
    return float(np.log(of_lower.high / lower.median) + np.log(upper.median / of_upper.low))


def _change_over(medians: Sequence[float]) -> float | None:
    """Return by what factor a trend over the rounds makes the last slower than the first, if by more than chance.

    It is Student's test of a straight line's slope through the logarithms, which knows by itself how much processes
    differ.
    """
    count = len(medians)
    if count < LEAST_ROUNDS:
        return None
    y, place = np.log(medians), np.arange(count) - (count - 1) / 2
    slope = float(place @ y / (place @ place))
    rest = y - y.mean() - slope * place
    error = float(np.sqrt(rest @ rest / (count - 2) / (place @ place)))
    change = slope * (count - 1)
    certain = error == 0 or 2 * stdtr(count - 2, -abs(slope) / error) < ROUNDS_P
    return float(np.exp(change)) if certain and abs(change) > np.log1p(DRIFT) else None


def _two_speeds(rounds: Sequence[NDArray[np.float64]], resolution: float) -> TimeCourse | None:
    """Return the two speeds of the samples in most of the rounds, or those that whole rounds had."""
    speeds = [found for samples in rounds if (found := _speeds_within(samples, resolution))]
    if 2 * len(speeds) > len(rounds):
        middle = [
            Speed(float(np.median([s.seconds for s in same])), float(np.mean([s.share for s in same])))
            for same in zip(*speeds, strict=True)
        ]
        return _named("samples", middle)
    between = _speeds_between([float(np.median(samples)) for samples in rounds])
    return _named("rounds", between) if between else None


def _speeds_within(samples: NDArray[np.float64], resolution: float) -> list[Speed] | None:
    if len(samples) < LEAST_SAMPLES:
        return None
    y = np.log(np.sort(samples))
    where = _best_split(np.clip(y, _quantile(y, TAIL), _quantile(y, 1 - TAIL)))
    parts = y[:where], y[where:]
    if min(map(len, parts)) < max(LEAST_PART, LEAST_SHARE * len(y)):
        return None
    (bottom, end), (begin, top) = ((_quantile(part, 0.1), _quantile(part, 0.9)) for part in parts)
    clear = begin - end > max(CLEAR * (end - bottom + top - begin), np.log1p(DRIFT))
    resolved = np.exp(begin) - np.exp(end) > resolution
    return _speeds(parts) if clear and resolved else None


def _speeds_between(medians: Sequence[float]) -> list[Speed] | None:
    if len(medians) < LEAST_ROUNDS:
        return None
    y = np.log(np.sort(medians))
    where = _best_split(y)
    parts = y[:where], y[where:]
    spans = sum(float(np.ptp(part)) for part in parts)
    clear = y[where] - y[where - 1] > max(CLEAR_OF_ROUNDS * spans, np.log1p(DRIFT))
    return _speeds(parts) if clear and min(map(len, parts)) > 1 else None


def _quantile(y: NDArray[np.float64], share: float) -> float:
    """Return the quantile of values that are sorted already, linear between them; NumPy's takes ten times as long."""
    below, part = divmod(share * (len(y) - 1), 1)
    low, high = float(y[int(below)]), float(y[min(int(below) + 1, len(y) - 1)])
    return low + part * (high - low)


def _best_split(y: NDArray[np.float64]) -> int:
    """Return where sorted values part into two sets that are nearest to their own means, as in 2-means clustering."""
    below, sums = np.arange(1, len(y)), np.cumsum(y - y.mean())[:-1]
    return int(np.argmax(sums**2 / (below * (len(y) - below)))) + 1


def _speeds(parts: Sequence[NDArray[np.float64]]) -> list[Speed]:
    total = sum(map(len, parts))
    return [Speed(float(np.exp(np.median(part))), len(part) / total) for part in parts]


def _named(of: str, speeds: Sequence[Speed]) -> TimeCourse:
    fast, slow = speeds
    words = (
        f"{fast.share:.0%} of the {of} took {_seconds(fast.seconds)}, {slow.share:.0%} took {_seconds(slow.seconds)}"
    )
    return TimeCourse("two speeds", f"it has two speeds: {words}", tuple(speeds))


def _longer(factor: float) -> str:
    return f"{factor - 1:.1%} longer" if factor > 1 else f"{1 - factor:.1%} shorter"


def _seconds(value: float) -> str:
    unit, size = next((pair for pair in UNITS if value >= 0.9995 * pair[1]), UNITS[-1])  # 999.7 ms is 1 s
    return f"{value / size:.3g} {unit}"


def bursts(timing: Timing) -> str | None:
    """Return a sentence if the mean step within epochs differs from the median; None if both agree."""
    ratio = timing.summary.mean / timing.summary.median
    if timing.steady is None or abs(ratio - 1) <= BURSTS:
        return None
    return f"the steps come in bursts: mean step {ratio:.3g} times the median"


def epoch_turns(timing: Timing) -> str | None:
    """Return a sentence if epoch boundaries take a large share of the steady time; None if the share is small.

    The share is the time of all steady steps beyond that of as many steps within an epoch.
    """
    turns = 1 - timing.summary.mean / timing.steady.mean if timing.steady else 0.0
    if turns <= BURSTS:
        return None
    return f"the turns of epochs take {turns:.0%} of the time, each between the last step of one and the next step"
