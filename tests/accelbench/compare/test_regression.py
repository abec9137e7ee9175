from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.compare.regression import FailOn, parse_fail_on, regressions
from accelbench.compare.runs import compare
from accelbench.errors import UserError
from tests.fixtures.compare_runs import Runs, evidence_of, failed, measured, repetitions, samples, shown, steady


@given(st.decimals(min_value=0, max_value="99.9", places=1))
def test_fail_on_reads_every_percentage(percent: Any) -> None:
    assert parse_fail_on(f"slower:{percent}%") == FailOn(float(percent))
    assert parse_fail_on(f" slower : {percent} % ") == FailOn(float(percent))


@given(st.floats(min_value=0.1, max_value=99).map(lambda value: round(value, 2)))
def test_fail_on_parses_its_own_text(percent: float) -> None:
    assert parse_fail_on(str(FailOn(percent))) == FailOn(percent)


@given(st.text() | st.from_regex(r"(slower|faster)?:?-?[0-9.e٣]*%?", fullmatch=True))
def test_fail_on_parses_any_text_or_raises_a_one_line_error(text: str) -> None:
    try:
        rule = parse_fail_on(text)
    except UserError as error:
        message: str | None = str(error)
    else:
        message = None
        assert 0 <= rule.percent < 100
        assert text.strip().startswith("slower")
    if message is not None:
        assert "slower:5" in message
        assert "\n" not in message


@pytest.mark.parametrize(
    "text",
    [
        *("", "5%", "slower", "slower:", "slower:5", "slower:%", "slower:-5%", "slower:nan%", "slower:1e1%"),
        *("faster:5%", "slower:100%", "slower:5%,slower:6%", "slower:٥%", "slower:5.%"),
    ],
)
def test_an_invalid_fail_on_raises_user_error(text: str) -> None:
    with pytest.raises(UserError, match="slower:5"):
        parse_fail_on(text)


def test_a_regression_is_slower_by_at_least_the_threshold(runs: Runs) -> None:
    comparison = runs(repetitions([1.0, 1.01, 0.99]), repetitions([1.25, 1.26, 1.24]))
    (found,) = regressions(comparison, FailOn(5))
    assert (found.point, found.reason) == ("matmul cpu impl=vendor n=1024", "20 % slower")
    assert regressions(comparison, FailOn(30)) == ()


def test_neither_a_faster_nor_an_inconclusive_point_is_a_regression(runs: Runs) -> None:
    inconclusive = [1.0, 1.1, 1.2], [2.0, 2.1, 2.2]
    noise = samples(1.0, spread=0.5), samples(1.3, spread=0.5, seed=9)
    for a, b in ((samples(1.0), samples(0.5)), inconclusive, noise):
        assert regressions(runs([measured(a)], [measured(b)]), FailOn(0)) == ()


def test_a_threshold_below_the_equivalence_is_applied(runs: Runs) -> None:
    a, b = ([runs.stored([steady(median * x)]) for x in (1.0, 1.001, 0.999)] for median in (1.0, 1.02))
    comparison = compare(a, b)
    assert comparison.changes[0].verdict == "same"
    assert [found.reason for found in regressions(comparison, FailOn(1))] == ["2.0 % slower"]
    assert regressions(comparison, FailOn(3)) == ()


def test_a_regression_requires_a_higher_confidence_than_a_verdict(runs: Runs) -> None:
    a, b = ([runs.stored([steady(median * x)]) for x in (1.0, 1.03, 0.97)] for median in (1.0, 1.1))
    comparison = compare(a, b)
    assert comparison.changes[0].verdict == "slower"
    assert 0.01 < evidence_of(comparison.changes[0]).p < 0.05
    assert regressions(comparison, FailOn(5)) == ()


def test_a_point_that_failed_in_b_is_a_regression_and_a_skipped_point_is_not(runs: Runs) -> None:
    a, broken = measured(samples(1.0)), failed("wrong answer: error 1, tolerated 1e-6")
    (found,) = regressions(runs([a], [broken]), FailOn(50))
    assert found.reason.endswith("wrong answer: error 1, tolerated 1e-6")
    assert regressions(runs([a], [failed("no memory", status="skipped")]), FailOn(50)) == ()
    assert regressions(runs([broken], [broken]), FailOn(50)) == ()
    assert regressions(runs([a], []), FailOn(50)) == ()


def test_a_point_that_failed_in_one_run_of_several_is_a_regression_and_the_others_are_compared(runs: Runs) -> None:
    a = [runs.stored([steady(median)]) for median in (1.0, 1.001, 0.999)]
    b = [*(runs.stored([steady(median)]) for median in (1.0, 1.002)), runs.stored([failed("crashed")])]
    comparison = compare(a, b)
    assert comparison.changes[0].verdict == "same"
    (found,) = regressions(comparison, FailOn(5))
    assert found.reason.endswith("crashed")
    assert "measured 3×" in shown(comparison)
    assert "measured 2×, failed (crashed) 1×" in shown(comparison)
