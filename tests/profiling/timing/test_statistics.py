"""Statistics of time samples: median and its interval, effective sample size, repetitions, summary."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import lfilter

from accelbench.profiling.records.timing import Summary
from accelbench.profiling.timing.statistics import (
    effective_size,
    median_interval,
    quartiles,
    relative_stdev,
    student_quantile,
    summarize,
    summarize_repetitions,
    tukey_outliers,
)

seconds = st.floats(min_value=1e-9, max_value=1e4)
sample_sets = st.lists(seconds, min_size=1, max_size=40)


def autoregressive(rng: np.random.Generator, n: int, rho: float) -> NDArray[np.float64]:
    """Return n values of a first-order autoregressive process with variance 1 and autocorrelation `rho`."""
    steps = rng.standard_normal(n) * np.r_[1, np.full(n - 1, math.sqrt(1 - rho**2))]
    return np.asarray(lfilter([1], [1, -rho], steps))


# Interval of the median; ranks and coverages are from published binomial tables.
@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    [(6, 1, 6, 0.96875), (9, 2, 8, 0.9609), (10, 2, 9, 0.9785), (15, 4, 12, 0.9648), (20, 6, 15, 0.9586)],
)
def test_the_interval_has_the_tabulated_order_statistics(n: int, low: int, high: int, coverage: float) -> None:
    shuffled = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    interval = median_interval(shuffled, effective=n)
    assert (interval.low, interval.high) == (low, high)
    assert interval.confidence == pytest.approx(coverage, abs=5e-5)


@pytest.mark.parametrize("n", [6, 7, 30, 101, 1000])
def test_the_interval_of_the_median_equals_scipys(n: int) -> None:
    samples = np.random.default_rng(n).lognormal(size=n)
    interval = median_interval(samples, effective=n)
    theirs = stats.quantile_test(samples, q=1.0, p=0.5).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("n", [2000, 100_000])
def test_the_coverage_of_the_interval_equals_scipys(n: int) -> None:
    samples = np.arange(1.0, n + 1)
    interval = median_interval(samples, effective=n)
    assert interval.confidence == pytest.approx(1 - 2 * stats.binom.cdf(interval.low - 1, n, 0.5), abs=1e-9)


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.95, 0.998])
@pytest.mark.parametrize("freedom", [1, 1.5, 2, 4.7, 30, 1e3, 1e5])
def test_students_quantile_equals_scipys(freedom: float, confidence: float) -> None:
    expected = stats.t.ppf((1 + confidence) / 2, freedom)
    assert student_quantile(freedom, confidence) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("n", "coverage"), [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)])
def test_the_interval_of_few_samples_is_their_range_with_its_actual_coverage(n: int, coverage: float) -> None:
    interval = median_interval(np.arange(1.0, n + 1), effective=n)
    assert (interval.low, interval.high, interval.confidence) == (1, n, coverage)


@pytest.mark.parametrize("n", [4, 8, 25, 100])
def test_the_interval_covers_the_true_median_with_its_confidence(n: int) -> None:
    rng, trials = np.random.default_rng(1), 4000
    intervals = [median_interval(rng.exponential(size=n), effective=n) for _ in range(trials)]
    covered = np.mean([interval.low <= math.log(2) <= interval.high for interval in intervals])
    expected = intervals[0].confidence
    assert covered == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / trials))


@given(sample_sets, st.floats(min_value=0.01, max_value=0.999))
def test_an_interval_contains_its_median_and_has_the_confidence_or_is_the_range(
    samples: list[float], confidence: float
) -> None:
    interval = median_interval(samples, confidence)
    assert interval.low <= quartiles(samples)[1] <= interval.high
    widest = (interval.low, interval.high) == (min(samples), max(samples))
    assert interval.confidence >= confidence - 1e-12 or widest


# Effective sample size.
@given(sample_sets)
def test_the_effective_size_is_at_least_one_and_at_most_the_number_of_samples(samples: list[float]) -> None:
    assert 1 <= effective_size(samples) <= len(samples) * (1 + 1e-12)


def test_the_effective_size_of_independent_samples_is_nearly_their_number() -> None:
    rng = np.random.default_rng(6)
    assert np.median([effective_size(rng.lognormal(size=500)) for _ in range(100)]) > 450


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.99])
def test_the_effective_size_of_an_autoregressive_process(rho: float) -> None:
    samples = np.exp(autoregressive(np.random.default_rng(7), 200_000, rho))
    assert effective_size(samples) == pytest.approx(200_000 * (1 - rho) / (1 + rho), rel=0.15)


def test_the_effective_size_depends_on_ranks_only() -> None:
    samples = np.exp(autoregressive(np.random.default_rng(8), 300, 0.8))
    assert effective_size(samples) == effective_size(samples**3)


def test_the_effective_size_of_alternating_samples_is_their_number() -> None:
    assert effective_size([1.0, 2.0] * 50) == 100


@pytest.mark.parametrize("n", [1, 2, 50])
def test_the_effective_size_of_constant_samples_is_their_number(n: int) -> None:
    assert effective_size([0.25] * n) == n


def test_the_effective_size_of_two_consecutive_levels_is_small() -> None:
    noise = np.random.default_rng(9).lognormal(sigma=0.001, size=200)
    assert effective_size(np.repeat([1.0, 1.8], 100) * noise) < 5


def test_dependent_samples_have_a_wider_interval_of_the_median() -> None:
    samples = np.exp(autoregressive(np.random.default_rng(10), 500, 0.9))
    dependent, independent = median_interval(samples), median_interval(samples, effective=500)
    assert dependent.low < independent.low < independent.high < dependent.high


def test_the_interval_of_few_effective_samples_has_less_confidence() -> None:
    interval = median_interval(np.linspace(1.0, 2.0, 300))
    assert (interval.low, interval.high) == (1.0, 2.0)
    assert interval.confidence < 0.95


# Repetitions.
def test_the_summary_of_one_repetition_is_that_of_its_samples() -> None:
    samples = np.random.default_rng(11).lognormal(size=30)
    assert summarize_repetitions([samples]) == summarize(samples)


def test_the_interval_over_repetitions_is_students_on_logarithms() -> None:
    medians = np.log([1.0, 1.1, 1.2, 1.4])
    theirs = stats.t.interval(0.95, 3, loc=medians.mean(), scale=stats.sem(medians))
    joined = summarize_repetitions([[1.0] * 9, [1.4] * 20, [1.1] * 5, [1.2] * 7])
    assert joined.median == pytest.approx(1.15)
    assert np.log([joined.ci_low, joined.ci_high]) == pytest.approx(theirs)
    assert (joined.count, joined.effective, joined.ci_confidence) == (41, 41, 0.95)


def test_two_repetitions_have_a_wide_interval() -> None:
    joined = summarize_repetitions([[1.0] * 9, [1.02] * 9])
    assert joined.ci_high / joined.ci_low > 1.25  # 12.7 standard errors either way


def test_equal_repetitions_have_the_uncertainty_of_their_samples() -> None:
    samples = np.random.default_rng(12).lognormal(sigma=0.1, size=30)
    one, two = summarize(samples), summarize_repetitions([samples, samples])
    width = math.log(one.ci_high / one.ci_low)
    assert math.log(two.ci_high / two.ci_low) == pytest.approx(width / math.sqrt(2))


@given(st.lists(sample_sets, min_size=1, max_size=8))
def test_the_interval_over_repetitions_contains_the_median_of_their_medians(repetitions: list[list[float]]) -> None:
    s = summarize_repetitions(repetitions)
    assert 0 < s.ci_low <= s.median <= s.ci_high
    assert s.median == pytest.approx(np.median([np.median(samples) for samples in repetitions]))
    assert s.count == sum(map(len, repetitions))


@pytest.mark.parametrize("wrong", [[], [[]], [[1.0], []], [[1.0], [math.nan]], [[0.0], [1.0]]])
def test_invalid_repetitions_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="finite number"):
        summarize_repetitions(wrong)


@pytest.mark.parametrize("n", range(1, 9))
def test_reversed_samples_have_the_same_effective_size(n: int) -> None:
    """All orders of up to 7 ranks and every seventh order of 8; many have pairs that are exactly zero."""
    for order in itertools.islice(itertools.permutations(map(float, range(n))), None, None, 1 if n < 8 else 7):
        assert effective_size(order[::-1]) == pytest.approx(effective_size(order), rel=1e-12)


# Summary.
def test_the_summary_of_a_known_set() -> None:
    assert summarize([3.0, 10.0, 1.0, 4.0, 2.0]) == Summary(
        count=5,
        effective=5.0,
        median=3.0,
        ci_low=1.0,
        ci_high=10.0,
        ci_confidence=0.9375,
        minimum=1.0,
        q1=2.0,
        q3=4.0,
        maximum=10.0,
        mean=4.0,
        relative_stdev=math.sqrt(50 / 4) / 4,
        outliers=1,
    )


@given(sample_sets)
def test_the_statistics_of_a_summary_are_in_order(samples: list[float]) -> None:
    s = summarize(samples)
    assert s.minimum <= s.ci_low <= s.median <= s.ci_high <= s.maximum
    assert s.minimum <= s.q1 <= s.median <= s.q3 <= s.maximum
    assert s.minimum * (1 - 1e-12) <= s.mean <= s.maximum * (1 + 1e-12)
    assert 0 <= s.outliers < s.count


@given(sample_sets, st.integers(min_value=-19, max_value=20))  # 2**-20 of a nanosecond is too short for a summary
def test_a_summary_scales_with_the_unit(samples: list[float], power: int) -> None:
    scale = 2.0**power  # exact, so that rounding moves no sample across a fence
    before, after = summarize(samples), summarize([scale * sample for sample in samples])
    assert (after.outliers, after.ci_confidence) == (before.outliers, before.ci_confidence)
    assert after.relative_stdev == pytest.approx(before.relative_stdev, rel=1e-9, abs=1e-12)
    for name in ("median", "ci_low", "ci_high", "minimum", "q1", "q3", "maximum", "mean"):
        assert getattr(after, name) == pytest.approx(scale * getattr(before, name))


@given(sample_sets)
@example([5.0, 3.0, 6.0, 4.0, 7.0, 2.0, 1.0, 8.0])  # a pair of autocorrelations is exactly zero
def test_reversed_samples_have_the_same_summary(samples: list[float]) -> None:
    backwards = summarize(samples[::-1])
    assert backwards.model_dump() == pytest.approx(summarize(samples).model_dump(), rel=1e-9, abs=1e-12)


def test_a_sample_beyond_the_fence_is_an_outlier_and_one_on_it_is_not() -> None:
    quiet = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0]
    assert tukey_outliers(quiet) == 0
    assert tukey_outliers([*quiet, 100.0]) == 1
    assert tukey_outliers([1.0, 2.0, 2.0, 3.0, 3.0, 4.5]) == 0  # q1 = 2, q3 = 3: the upper fence is 4.5 itself
    assert tukey_outliers([1.0, 2.0, 2.0, 3.0, 3.0, 4.6]) == 1


def test_a_single_sample_has_no_spread_and_an_interval_of_confidence_0() -> None:
    s = summarize([0.25])
    assert (s.median, s.ci_low, s.ci_high, s.ci_confidence, s.relative_stdev) == (0.25, 0.25, 0.25, 0.0, 0.0)


def test_relative_stdev_equals_scipys() -> None:
    samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
    assert relative_stdev(samples) == pytest.approx(float(stats.variation(samples, ddof=1)))


@pytest.mark.parametrize("wrong", [[], [0.0], [-1.0, 1.0], [math.nan], [1.0, math.inf]])
@pytest.mark.parametrize("function", [summarize, median_interval, quartiles, relative_stdev, tukey_outliers])
def test_invalid_samples_are_refused(function: Callable[[list[float]], object], wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="finite number"):
        function(wrong)


@pytest.mark.parametrize("wrong", [[], [math.nan], [1.0, math.inf]])
def test_the_effective_size_of_invalid_samples_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="finite number"):
        effective_size(wrong)
