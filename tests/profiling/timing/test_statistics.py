from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.signal import lfilter

from profiling.records.timing import Summary
from profiling.timing.statistics import (
    MAX_COMPARED,
    MAX_EXACT,
    effective_size,
    mann_whitney_p,
    median_interval,
    quartiles,
    rank_distribution,
    ratio_interval,
    relative_stdev,
    smallest_p,
    summarize,
    summarize_rounds,
    tukey_outliers,
)

seconds = st.floats(min_value=1e-9, max_value=1e4)
sample_sets = st.lists(seconds, min_size=1, max_size=40)
scales = st.floats(min_value=1e-3, max_value=1e3)

# Hollander & Wolfe's placenta permeability data (their table 4.1), as in R's help page of wilcox.test.
AT_TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
EARLY = [1.15, 0.88, 0.90, 0.74, 1.21]


def autoregressive(rng: np.random.Generator, n: int, rho: float) -> NDArray[np.float64]:
    """Return n values of variance 1 whose correlation with the one before is `rho`."""
    steps = rng.standard_normal(n) * np.r_[1, np.full(n - 1, math.sqrt(1 - rho**2))]
    return np.asarray(lfilter([1], [1, -rho], steps))


# The interval of the median: ranks and coverages from the published binomial tables.
@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"),
    [(6, 1, 6, 0.96875), (9, 2, 8, 0.9609), (10, 2, 9, 0.9785), (15, 4, 12, 0.9648), (20, 6, 15, 0.9586)],
)
def test_the_median_lies_between_the_tabulated_order_statistics(n: int, low: int, high: int, coverage: float) -> None:
    shuffled = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    interval = median_interval(shuffled, effective=n)
    assert (interval.low, interval.high) == (low, high)
    assert interval.confidence == pytest.approx(coverage, abs=5e-5)


@pytest.mark.parametrize("n", [6, 7, 30, 101, 1000])
def test_the_interval_of_the_median_is_that_of_scipy(n: int) -> None:
    samples = np.random.default_rng(n).lognormal(size=n)
    interval = median_interval(samples, effective=n)
    theirs = stats.quantile_test(samples, q=1.0, p=0.5).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("n", "coverage"), [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)])
def test_few_samples_give_their_extremes_and_the_coverage_these_really_have(n: int, coverage: float) -> None:
    interval = median_interval(np.arange(1.0, n + 1), effective=n)
    assert (interval.low, interval.high, interval.confidence) == (1, n, coverage)


@pytest.mark.parametrize("n", [4, 8, 25, 100])
def test_the_interval_covers_the_true_median_as_often_as_it_says(n: int) -> None:
    rng, trials = np.random.default_rng(1), 4000
    intervals = [median_interval(rng.exponential(size=n), effective=n) for _ in range(trials)]
    covered = np.mean([interval.low <= math.log(2) <= interval.high for interval in intervals])
    claimed = intervals[0].confidence
    assert covered == pytest.approx(claimed, abs=4 * math.sqrt(claimed * (1 - claimed) / trials))


@given(sample_sets, st.floats(min_value=0.01, max_value=0.999))
def test_an_interval_holds_its_median_and_has_the_confidence_or_is_the_widest(
    samples: list[float], confidence: float
) -> None:
    interval = median_interval(samples, confidence)
    assert interval.low <= quartiles(samples)[1] <= interval.high
    widest = (interval.low, interval.high) == (min(samples), max(samples))
    assert interval.confidence >= confidence - 1e-12 or widest


# Samples that depend on their neighbours.
@given(sample_sets)
def test_samples_are_worth_at_least_one_and_at_most_their_number(samples: list[float]) -> None:
    assert 1 <= effective_size(samples) <= len(samples) * (1 + 1e-12)


def test_independent_samples_are_worth_nearly_their_number() -> None:
    rng = np.random.default_rng(6)
    assert np.median([effective_size(rng.lognormal(size=500)) for _ in range(100)]) > 450


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.99])
def test_an_autoregressive_process_is_worth_what_theory_says(rho: float) -> None:
    samples = np.exp(autoregressive(np.random.default_rng(7), 200_000, rho))
    assert effective_size(samples) == pytest.approx(200_000 * (1 - rho) / (1 + rho), rel=0.15)


def test_the_effective_size_sees_ranks_alone() -> None:
    samples = np.exp(autoregressive(np.random.default_rng(8), 300, 0.8))
    assert effective_size(samples) == effective_size(samples**3)


def test_samples_that_alternate_are_worth_no_more_than_their_number() -> None:
    assert effective_size([1.0, 2.0] * 50) == 100


@pytest.mark.parametrize("n", [1, 2, 50])
def test_constant_samples_are_worth_their_number(n: int) -> None:
    assert effective_size([0.25] * n) == n


def test_two_speeds_one_after_the_other_are_worth_hardly_more_than_two_samples() -> None:
    noise = np.random.default_rng(9).lognormal(sigma=0.001, size=200)
    assert effective_size(np.repeat([1.0, 1.8], 100) * noise) < 5


def test_dependent_samples_have_a_wider_interval_of_the_median() -> None:
    samples = np.exp(autoregressive(np.random.default_rng(10), 500, 0.9))
    dependent, independent = median_interval(samples), median_interval(samples, effective=500)
    assert dependent.low < independent.low < independent.high < dependent.high


def test_the_interval_of_few_effective_samples_says_so() -> None:
    interval = median_interval(np.linspace(1.0, 2.0, 300))
    assert (interval.low, interval.high) == (1.0, 2.0)
    assert interval.confidence < 0.95


# Rounds.
def test_one_round_is_a_summary_of_its_samples() -> None:
    samples = np.random.default_rng(11).lognormal(size=30)
    assert summarize_rounds([samples]) == summarize(samples)


def test_the_interval_over_rounds_is_that_of_student_on_logarithms() -> None:
    medians = np.log([1.0, 1.1, 1.2, 1.4])
    theirs = stats.t.interval(0.95, 3, loc=medians.mean(), scale=stats.sem(medians))
    rounds = summarize_rounds([[1.0] * 9, [1.4] * 20, [1.1] * 5, [1.2] * 7])
    assert rounds.median == pytest.approx(1.15)
    assert np.log([rounds.ci_low, rounds.ci_high]) == pytest.approx(theirs)
    assert (rounds.count, rounds.effective, rounds.ci_confidence) == (41, 41, 0.95)


def test_two_rounds_have_a_wide_interval() -> None:
    rounds = summarize_rounds([[1.0] * 9, [1.02] * 9])
    assert rounds.ci_high / rounds.ci_low > 1.25  # 12.7 standard errors either way


def test_rounds_that_agree_by_chance_leave_what_their_samples_leave_open() -> None:
    samples = np.random.default_rng(12).lognormal(sigma=0.1, size=30)
    alone, together = summarize(samples), summarize_rounds([samples, samples])
    width = math.log(alone.ci_high / alone.ci_low)
    assert math.log(together.ci_high / together.ci_low) == pytest.approx(width / math.sqrt(2))


@given(st.lists(sample_sets, min_size=1, max_size=8))
def test_the_interval_over_rounds_holds_the_median_of_their_medians(rounds: list[list[float]]) -> None:
    s = summarize_rounds(rounds)
    assert 0 < s.ci_low <= s.median <= s.ci_high
    assert s.median == pytest.approx(np.median([np.median(samples) for samples in rounds]))
    assert s.count == sum(map(len, rounds))


@pytest.mark.parametrize("wrong", [[], [[]], [[1.0], []], [[1.0], [math.nan]], [[0.0], [1.0]]])
def test_rounds_without_durations_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        summarize_rounds(wrong)


# The summary.
def test_a_summary_of_a_known_set() -> None:
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
def test_the_figures_of_a_summary_are_in_order(samples: list[float]) -> None:
    s = summarize(samples)
    assert s.minimum <= s.ci_low <= s.median <= s.ci_high <= s.maximum
    assert s.minimum <= s.q1 <= s.median <= s.q3 <= s.maximum
    assert s.minimum * (1 - 1e-12) <= s.mean <= s.maximum * (1 + 1e-12)
    assert 0 <= s.outliers < s.count


@given(sample_sets, st.integers(min_value=-20, max_value=20))
def test_a_summary_in_another_unit_is_the_same_summary(samples: list[float], power: int) -> None:
    scale = 2.0**power  # exact, so that no sample crosses a fence by rounding
    before, after = summarize(samples), summarize([scale * sample for sample in samples])
    assert (after.outliers, after.ci_confidence) == (before.outliers, before.ci_confidence)
    assert after.relative_stdev == pytest.approx(before.relative_stdev, rel=1e-9, abs=1e-12)
    for name in ("median", "ci_low", "ci_high", "minimum", "q1", "q3", "maximum", "mean"):
        assert getattr(after, name) == pytest.approx(scale * getattr(before, name))


@given(sample_sets)
def test_the_order_of_the_samples_changes_nothing(samples: list[float]) -> None:
    backwards = summarize(samples[::-1])
    assert backwards.model_dump() == pytest.approx(summarize(samples).model_dump(), rel=1e-9, abs=1e-12)


def test_a_far_sample_beyond_the_fence_is_an_outlier_and_one_on_it_is_not() -> None:
    quiet = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0]
    assert tukey_outliers(quiet) == 0
    assert tukey_outliers([*quiet, 100.0]) == 1
    assert tukey_outliers([1.0, 2.0, 2.0, 3.0, 3.0, 4.5]) == 0  # q1 = 2, q3 = 3: the upper fence is 4.5 itself
    assert tukey_outliers([1.0, 2.0, 2.0, 3.0, 3.0, 4.6]) == 1


def test_a_single_sample_has_no_spread_and_an_interval_that_covers_nothing() -> None:
    s = summarize([0.25])
    assert (s.median, s.ci_low, s.ci_high, s.ci_confidence, s.relative_stdev) == (0.25, 0.25, 0.25, 0.0, 0.0)


def test_relative_spread_is_the_sample_deviation_over_the_mean() -> None:
    samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
    assert relative_stdev(samples) == pytest.approx(float(stats.variation(samples, ddof=1)))


@pytest.mark.parametrize("wrong", [[], [0.0], [-1.0, 1.0], [math.nan], [1.0, math.inf]])
@pytest.mark.parametrize(
    "function", [summarize, effective_size, median_interval, quartiles, relative_stdev, tukey_outliers]
)
def test_what_is_no_set_of_durations_is_refused(function: Callable[[list[float]], object], wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        function(wrong)


# The rank test.
def test_the_rank_test_gives_the_published_p_value() -> None:
    one_sided = 0.1272  # Hollander & Wolfe, example 4.1, and R: wilcox.test(x, y, alternative = "g")
    assert mann_whitney_p(AT_TERM, EARLY) == pytest.approx(2 * one_sided, abs=1e-4)


@given(sample_sets, sample_sets)
def test_the_rank_test_does_not_care_which_set_comes_first(a: list[float], b: list[float]) -> None:
    p = mann_whitney_p(a, b)
    assert p == pytest.approx(mann_whitney_p(b, a))
    assert smallest_p(len(a), len(b)) <= p <= 1


def test_equal_sets_are_no_evidence() -> None:
    assert mann_whitney_p([1.0] * 9, [1.0] * 9) == 1.0


@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 1.0), (5, 5, 2 / 252), (6, 6, 2 / 924), (7, 7, 2 / 3432)])
def test_separated_sets_reach_the_smallest_p_value_of_their_sizes(n: int, m: int, p: float) -> None:
    assert smallest_p(n, m) == pytest.approx(p)
    assert mann_whitney_p(np.arange(1.0, n + 1), np.arange(100.0, 100 + m)) == pytest.approx(p)


def test_ties_do_not_make_the_evidence_of_few_samples_stronger_than_their_number_allows() -> None:
    # The normal approximation alone says 0.0013.
    assert mann_whitney_p([1.0] * 6, [2.0] * 6) == pytest.approx(2 / 924)


@pytest.mark.slow
def test_the_rank_test_errs_as_rarely_as_its_p_value_says() -> None:
    rng, trials = np.random.default_rng(5), 2000
    wrong = np.mean([mann_whitney_p(rng.lognormal(size=30), rng.lognormal(size=12)) < 0.05 for _ in range(trials)])
    assert 0.03 < wrong < 0.065


# The interval of a ratio.
def test_the_ratio_interval_is_the_published_hodges_lehmann_interval_in_logarithms() -> None:
    # Hollander & Wolfe, examples 4.3 and 4.4: shift 0.305, and (−0.15, 0.76) with confidence 0.96 (more exactly
    # 1 − 2·P(U ≤ 8) = 0.9600). The exponential turns their shift into our ratio.
    interval = ratio_interval(np.exp(EARLY), np.exp(AT_TERM), confidence=0.95)
    assert np.log([interval.ratio, interval.low, interval.high]) == pytest.approx([0.305, -0.15, 0.76])
    assert interval.confidence == pytest.approx(0.9600, abs=5e-5)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (3, 4), (5, 7), (6, 6)])
def test_the_rank_distribution_is_that_of_every_possible_arrangement(n: int, m: int) -> None:
    from itertools import combinations

    counts = np.zeros(n * m + 1)
    for places in combinations(range(n + m), n):
        counts[sum(places) - n * (n - 1) // 2] += 1
    assert rank_distribution(n, m) == pytest.approx(counts / counts.sum())


def test_the_rank_distribution_gives_the_exact_p_value_of_scipy() -> None:
    a, b = [1.1, 2.2, 3.3, 7.7, 8.8], [4.4, 5.5, 6.6, 9.9, 10.1, 11.2, 12.3]
    found = stats.mannwhitneyu(a, b, method="exact")
    tail = rank_distribution(len(a), len(b))[: int(found.statistic) + 1].sum()
    assert 2 * tail == pytest.approx(found.pvalue)


def test_exact_and_approximate_bounds_agree_where_one_takes_over_from_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(sigma=0.1, size=MAX_EXACT + 1), rng.lognormal(sigma=0.1, size=MAX_EXACT + 10)
    approximate = ratio_interval(a, b)
    monkeypatch.setattr("profiling.timing.statistics.MAX_EXACT", 100)
    exact = ratio_interval(a, b)
    assert approximate.confidence == pytest.approx(exact.confidence, abs=1e-3)
    assert (approximate.low, approximate.high) == pytest.approx((exact.low, exact.high), rel=0.005)  # one pair apart


@given(sample_sets, sample_sets)
def test_a_ratio_lies_in_its_interval_and_turns_over_with_its_sets(a: list[float], b: list[float]) -> None:
    there, back = ratio_interval(a, b), ratio_interval(b, a)
    assert there.low <= there.ratio * (1 + 1e-12)
    assert there.ratio <= there.high * (1 + 1e-12)
    assert 0 <= there.confidence <= 1
    assert (back.low, back.ratio, back.high) == pytest.approx((1 / there.high, 1 / there.ratio, 1 / there.low))


@given(sample_sets, sample_sets, scales, scales)
def test_a_ratio_scales_with_its_sets(a: list[float], b: list[float], s: float, t: float) -> None:
    before, after = ratio_interval(a, b), ratio_interval([s * x for x in a], [t * y for y in b])
    expected = [t / s * value for value in (before.low, before.ratio, before.high)]
    assert [after.low, after.ratio, after.high] == pytest.approx(expected)


@given(st.lists(seconds, min_size=5, max_size=40), scales)
def test_a_set_against_a_multiple_of_itself_has_that_ratio(a: list[float], factor: float) -> None:
    interval = ratio_interval(a, [factor * x for x in a])
    assert interval.low * (1 - 1e-9) <= factor <= interval.high * (1 + 1e-9)
    assert interval.ratio == pytest.approx(factor)


@given(sample_sets, sample_sets)
def test_more_confidence_is_never_a_narrower_interval(a: list[float], b: list[float]) -> None:
    wide, narrow = ratio_interval(a, b, 0.999), ratio_interval(a, b, 0.9)
    assume(wide.confidence != narrow.confidence)
    assert wide.confidence > narrow.confidence
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@pytest.mark.parametrize(("n", "m"), [(4, 4), (6, 9), (40, 25)])
def test_the_interval_covers_the_true_ratio_as_often_as_it_says(n: int, m: int) -> None:
    rng, trials, ratio = np.random.default_rng(3), 3000, 1.07
    intervals = [
        ratio_interval(rng.lognormal(sigma=0.3, size=n), ratio * rng.lognormal(sigma=0.3, size=m), 0.95)
        for _ in range(trials)
    ]
    covered = np.mean([interval.low <= ratio <= interval.high for interval in intervals])
    claimed = intervals[0].confidence
    assert claimed >= 0.95
    assert covered == pytest.approx(claimed, abs=4 * math.sqrt(claimed * (1 - claimed) / trials))


def test_huge_sets_are_thinned_alike_every_time_and_still_find_the_ratio() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.lognormal(sigma=0.1, size=50_000), 1.05 * rng.lognormal(sigma=0.1, size=70_000)
    interval = ratio_interval(a, b)
    assert interval == ratio_interval(a, b)
    assert interval.low < 1.05 < interval.high
    # The width is that of the thinned sets: the interval claims no more than what entered it.
    expected = 2 * 2.576 * 0.1 * math.sqrt(2 / MAX_COMPARED)
    assert math.log(interval.high / interval.low) == pytest.approx(expected, rel=0.2)
    assert mann_whitney_p(a, b) < 1e-6
    assert mann_whitney_p(a[:7], b) == mann_whitney_p(a[:7], b)


@pytest.mark.parametrize("wrong", [[], [0.0], [-1.0, 1.0], [math.nan]])
def test_comparisons_refuse_what_is_no_set_of_durations(wrong: list[float]) -> None:
    for compare in (ratio_interval, mann_whitney_p):
        for pair in ((wrong, [1.0]), ([1.0], wrong)):
            with pytest.raises(ValueError, match="positive and finite"):
                compare(*pair)
