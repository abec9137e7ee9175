"""Time course of a point's samples: steady, a drift, two speeds, or bursts.

With a drift or two speeds, the median is not representative of any execution. The false-positive rate of both tests is
below 1 % for independent samples of any distribution and for repetitions that differ by chance
(`make bench-self PART=statistics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import VALID_SAMPLES, Samples, median_interval, student_quantile

Kind = Literal["steady", "drifts", "two speeds"]
Condition = Literal["clean", "bound", "noisy"]
"""Condition of a result: undisturbed samples, only an upper bound of the time, or disturbed in another way."""

DRIFT = 0.02
"""Smallest relative change over a point, or between two speeds, that is reported."""
LEAST_PART = 5
"""Smallest number of samples to compare; the ranges of two sets of five are disjoint by chance in 0.8 % of cases."""
REPETITIONS_P = 0.002
"""Significance level of a trend over the medians of the repetitions."""
BURSTS = 0.10
"""Smallest relative difference of mean and median step, and smallest share of epoch boundaries, that is reported."""
LEAST_REPETITIONS = 5
"""Smallest number of repetitions to test for a trend or two speeds; fewer show one by chance too often."""
LEAST_SAMPLES = 20
"""Smallest number of samples to test for two speeds; fewer have gaps by chance."""
LEAST_SHARE = 0.1
"""Smallest share of the samples that is a speed; a smaller share is a tail of the distribution."""
TAIL = 0.05
"""Share of the samples at either end that is clipped before the samples are split into two speeds."""
CLEAR = 1.0
"""Smallest ratio of the gap between two speeds to the sum of their spans, both in logarithms."""
CLEAR_OF_REPETITIONS = 6.0
"""The same ratio for repetitions; five processes exceed it by chance in 0.2 % of cases, independent of their spread."""
GPU_EVENT_RESOLUTION = 1e-6
"""Resolution of GPU events in seconds, which can make the samples of one kernel look like two speeds."""
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True)
class Speed:
    """One of two speeds of a point."""

    seconds: float
    """The median of the samples, or of the repetitions' medians, with this speed."""
    share: float
    """The share of the samples, or of the repetitions, with this speed."""


@dataclass(frozen=True)
class TimeCourse:
    """Classification of a time course, with a sentence unless it is steady, and the two speeds if there are two."""

    kind: Kind
    sentence: str = ""
    speeds: tuple[Speed, ...] = ()
    between_processes: bool = False
    """Whether the two speeds are of different repetitions, each of which has only one."""


def disturbances(record: Record, course: TimeCourse | None = None) -> list[str]:
    """Return the disturbances of a record as text: noise flags, too few clean samples, the samples' time course.

    `course` is the classification of the samples, if it is known already; computing it takes about a millisecond.
    """
    found = course or course_of(record)
    bound = record.timing.upper_bound if record.timing else None
    return [*record.noise, *filter(None, [bound, found.sentence])]


def condition_of(record: Record, course: TimeCourse | None = None) -> Condition:
    """Return the condition of a measured record: a bound takes precedence over other noise."""
    if record.timing and record.timing.upper_bound:
        return "bound"
    return "noisy" if disturbances(record, course) else "clean"


def course_of(record: Record) -> TimeCourse:
    """Return the time course of a record's used samples; `steady` without samples, or with an invalid sample.

    The samples of an upper bound are too few for a test. Training steps are tested for a drift only, since bursts of
    their input are not a disturbance.
    """
    timing = record.timing
    if timing is None or not timing.samples or not all(0 < sample < float("inf") for sample in timing.samples):
        return TimeCourse("steady")
    counts = [part.count for part in record.rounds]
    if timing.timer == "steps" and (timing.causes is None or not timing.upper_bound):
        used = timing.used_by_repetition(counts or [len(timing.samples)])
        parts = _parts([sample for part in used for sample in part], [len(part) for part in used])
        return _drift(parts) or TimeCourse("steady")
    resolution = GPU_EVENT_RESOLUTION if timing.timer == "nvbench" else 0.0
    if timing.causes is None:
        return course(timing.samples, counts, resolution)
    if timing.upper_bound:
        return TimeCourse("steady")
    used = timing.used_by_repetition(counts)
    return course([sample for part in used for sample in part], [len(part) for part in used], resolution)


def course(samples: Samples, counts: Sequence[int] = (), resolution: float = 0.0) -> TimeCourse:
    """Return the time course of samples in the order measured; `counts` are the numbers of samples of the repetitions.

    `resolution` is the clock resolution in seconds. Raises ValueError if the counts do not add up to the number of
    samples, or if a sample is not positive and finite.
    """
    repetitions = _parts(samples, counts)
    return _two_speeds(repetitions, resolution) or _drift(repetitions) or TimeCourse("steady")


def _parts(samples: Samples, counts: Sequence[int]) -> list[NDArray[np.float64]]:
    x = np.asarray(samples, dtype=np.float64)
    if x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError(VALID_SAMPLES)
    if not len(counts):
        return [x]
    if sum(counts) != len(x) or min(counts) < 1:
        raise ValueError(f"{len(x)} samples, but the counts of the repetitions are {', '.join(map(str, counts))}")
    return np.split(x, np.cumsum(counts)[:-1])


def _drift(repetitions: Sequence[NDArray[np.float64]]) -> TimeCourse | None:
    change = _change_within(repetitions)
    if change is not None:
        of = " of each repetition" if len(repetitions) > 1 else ""
        return TimeCourse("drifts", f"drift: the last third{of} took {_longer(change)} than the first")
    change = _change_over([float(np.median(samples)) for samples in repetitions])
    if change is not None:
        return TimeCourse("drifts", f"drift: the last repetition took {_longer(change)} than the first")
    return None


def _change_within(repetitions: Sequence[NDArray[np.float64]]) -> float | None:
    """Return the time of the last third of the repetitions relative to the first third; None if not significant.

    For one repetition, the intervals of the two medians must be disjoint. For several, the mean change must exceed the
    mean uncertainty divided by the square root of their number, as for independent means. Thirds are compared because
    the halves of a steady drift adjoin.
    """
    long_enough = [samples for samples in repetitions if len(samples) >= 2 * LEAST_PART]
    if not long_enough:
        return None
    ends = [_ends(samples) for samples in long_enough]
    change = float(np.mean([np.log(last.median / first.median) for first, last in ends]))
    if abs(change) <= np.log1p(DRIFT):  # most points, which then need no test
        return None
    chance = float(np.mean([_by_chance(first, last, change > 0) for first, last in ends])) / len(ends) ** 0.5
    return float(np.exp(change)) if abs(change) > chance else None


class _Third(NamedTuple):
    """First or last third of a repetition's samples, and its median."""

    samples: NDArray[np.float64]
    median: float


def _ends(samples: NDArray[np.float64]) -> tuple[_Third, _Third]:
    part = max(LEAST_PART, len(samples) // 3)
    first, last = samples[:part], samples[-part:]
    return _Third(first, float(np.median(first))), _Third(last, float(np.median(last)))


def _by_chance(first: _Third, last: _Third, rises: bool) -> float:
    """Return the difference of the two medians' logarithms that chance may cause, upward or downward.

    It is the sum of the distances from the medians to those ends of their intervals that face each other.
    """
    lower, upper = (first, last) if rises else (last, first)
    of_lower, of_upper = median_interval(lower.samples), median_interval(upper.samples)
    return float(np.log(of_lower.high / lower.median) + np.log(upper.median / of_upper.low))


def _change_over(medians: Sequence[float]) -> float | None:
    """Return the time of the last repetition relative to the first by their trend; None if not significant.

    It is Student's t test of the slope of a straight line through the logarithms. The residuals estimate the variation
    between processes.
    """
    count = len(medians)
    if count < LEAST_REPETITIONS:
        return None
    y, place = np.log(medians), np.arange(count) - (count - 1) / 2
    slope = float(place @ y / (place @ place))
    rest = y - y.mean() - slope * place
    error = float(np.sqrt(rest @ rest / (count - 2) / (place @ place)))
    change = slope * (count - 1)
    certain = error == 0 or abs(slope) / error > student_quantile(count - 2, 1 - REPETITIONS_P)
    return float(np.exp(change)) if certain and abs(change) > np.log1p(DRIFT) else None


def _two_speeds(repetitions: Sequence[NDArray[np.float64]], resolution: float) -> TimeCourse | None:
    """Return the two speeds of the samples in most repetitions, or of the repetitions' medians; None if neither."""
    speeds = [found for samples in repetitions if (found := _speeds_within(samples, resolution))]
    if 2 * len(speeds) > len(repetitions):
        middle = [
            Speed(float(np.median([s.seconds for s in same])), float(np.mean([s.share for s in same])))
            for same in zip(*speeds, strict=True)
        ]
        return _two("samples", middle)
    between = _speeds_between([float(np.median(samples)) for samples in repetitions])
    return _two("repetitions", between) if between else None


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
    if len(medians) < LEAST_REPETITIONS:
        return None
    y = np.log(np.sort(medians))
    where = _best_split(y)
    parts = y[:where], y[where:]
    spans = sum(float(np.ptp(part)) for part in parts)
    clear = y[where] - y[where - 1] > max(CLEAR_OF_REPETITIONS * spans, np.log1p(DRIFT))
    return _speeds(parts) if clear and min(map(len, parts)) > 1 else None


def _quantile(y: NDArray[np.float64], share: float) -> float:
    """Return the quantile of sorted values by linear interpolation; NumPy's function takes ten times as long."""
    below, part = divmod(share * (len(y) - 1), 1)
    low, high = float(y[int(below)]), float(y[min(int(below) + 1, len(y) - 1)])
    return low + part * (high - low)


def _best_split(y: NDArray[np.float64]) -> int:
    """Return the index that splits sorted values into two sets with the least squared deviation from their means."""
    below, sums = np.arange(1, len(y)), np.cumsum(y - y.mean())[:-1]
    return int(np.argmax(sums**2 / (below * (len(y) - below)))) + 1


def _speeds(parts: Sequence[NDArray[np.float64]]) -> list[Speed]:
    total = sum(map(len, parts))
    return [Speed(float(np.exp(np.median(part))), len(part) / total) for part in parts]


def _two(of: Literal["samples", "repetitions"], speeds: Sequence[Speed]) -> TimeCourse:
    fast, slow = speeds
    text = f"{fast.share:.0%} of the {of} took {_seconds(fast.seconds)}, {slow.share:.0%} took {_seconds(slow.seconds)}"
    return TimeCourse("two speeds", f"two speeds: {text}", tuple(speeds), of == "repetitions")


def _longer(factor: float) -> str:
    return f"{factor - 1:.1%} longer" if factor > 1 else f"{1 - factor:.1%} shorter"


def _seconds(value: float) -> str:
    unit, size = next((pair for pair in UNITS if value >= 0.9995 * pair[1]), UNITS[-1])  # 999.7 ms is 1 s
    return f"{value / size:.3g} {unit}"


def bursts(timing: Timing) -> str | None:
    """Return a sentence if the mean step within epochs differs from the median step; else None."""
    ratio = timing.summary.mean / timing.summary.median
    if timing.steady is None or abs(ratio - 1) <= BURSTS:
        return None
    return f"the steps come in bursts: mean step {ratio:.3g} times the median"


def epoch_boundaries(timing: Timing) -> str | None:
    """Return a sentence if epoch boundaries take a large share of the steady time; else None.

    Their time is the total time of the steady steps, less the time of as many steps within an epoch.
    """
    share = 1 - timing.summary.mean / timing.steady.mean if timing.steady else 0.0
    if share <= BURSTS:
        return None
    return f"epoch boundaries take {share:.0%} of the time (from the last step of an epoch to the first of the next)"
