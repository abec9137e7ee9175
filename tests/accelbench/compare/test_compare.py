from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from accelbench.compare.change import Change, judge
from accelbench.compare.runs import Comparison, FailOn, compare, parse_fail_on, regressions, render_comparison
from accelbench.errors import UserError
from profiling.records.environment import Environment
from profiling.records.record import Record
from profiling.records.telemetry import Gauge, Telemetry
from profiling.records.work import Work
from profiling.timing.statistics import RatioInterval
from tests.fixtures.compare_runs import MATMUL, failed, machine, measured, run, samples, trained


class Runs:
    """Compares lists of records through real run directories."""

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0

    def __call__(
        self,
        a: list[Record],
        b: list[Record],
        environments: tuple[Environment | None, Environment | None] = (None, None),
        equivalence: float = 0.03,
        **fields_of_b: Any,
    ) -> Comparison:
        self._count += 1
        store_a = run(self._path / f"before-{self._count}", a, environments[0])
        store_b = run(self._path / f"after-{self._count}", b, environments[1], **fields_of_b)
        return compare(store_a, store_b, equivalence)

    def one(self, a: list[float], b: list[float]) -> Change:
        (change,) = self([measured(a)], [measured(b)]).changes
        return change


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def shown(comparison: Comparison, width: int = 100) -> str:
    """What a terminal of that width shows, its line breaks and padding taken out."""
    console = Console(file=io.StringIO(), width=width)
    render_comparison(comparison, console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


# The verdict of a point.
@pytest.mark.parametrize(
    ("time_of_b", "verdict", "speed"),
    [(1.25, "slower", 0.8), (0.8, "faster", 1.25), (1.005, "same", 0.995), (1.0, "same", 1.0)],
)
def test_a_point_of_many_steady_samples_gets_a_clear_verdict(
    runs: Runs, time_of_b: float, verdict: str, speed: float
) -> None:
    change = runs.one(samples(1.0, seed=1), samples(time_of_b, seed=2))
    assert (change.verdict, change.reason) == (verdict, None)
    assert change.speed is not None
    assert change.speed.ratio == pytest.approx(speed, rel=0.01)
    assert change.speed.low < speed < change.speed.high


def test_a_run_compared_with_itself_is_the_same_everywhere(tmp_path: Path) -> None:
    store = run(tmp_path / "r", [measured(samples(1.0)), trained(samples(0.1), accuracy=0.98)])
    comparison = compare(store, store)
    assert [change.verdict for change in comparison.changes] == ["same", "same"]
    assert comparison.differences == ()


def test_noise_as_large_as_the_difference_cannot_be_told(runs: Runs) -> None:
    change = runs.one(samples(1.0, count=12, spread=0.3, seed=1), samples(1.05, count=12, spread=0.3, seed=2))
    assert change.verdict == "cannot tell"
    assert change.reason == "the interval reaches from slower to faster"


def test_a_certain_difference_about_as_large_as_the_equivalence_is_neither_slower_nor_the_same(runs: Runs) -> None:
    change = runs.one(samples(1.0, spread=0.015, seed=1), samples(1.027, spread=0.015, seed=2))
    assert change.speed is not None
    assert change.speed.high < 1
    assert change.speed.low < 0.97 < change.speed.ratio
    assert change.verdict == "cannot tell"
    assert change.reason == "slower, but perhaps by no more than the 3.0 % that count as the same"


def test_a_narrower_equivalence_tells_smaller_differences(runs: Runs) -> None:
    a, b = [measured(samples(1.0, spread=0.001, seed=1))], [measured(samples(1.01, spread=0.001, seed=2))]
    assert runs(a, b, equivalence=0.03).changes[0].verdict == "same"
    assert runs(a, b, equivalence=0.005).changes[0].verdict == "slower"
    assert runs(a, b, equivalence=0).changes[0].verdict == "slower"


@pytest.mark.parametrize("equivalence", [-0.01, 1.0, 3.0])
def test_an_equivalence_that_is_no_share_is_wrong_use(runs: Runs, equivalence: float) -> None:
    with pytest.raises(UserError, match="less than 100 %"):
        runs([], [], equivalence=equivalence)


def test_five_samples_against_five_cannot_prove_a_difference_and_it_is_said_what_would(runs: Runs) -> None:
    a, b = [1.02, 1.04, 1.0, 1.03, 1.01], [2.02, 2.04, 2.0, 2.03, 2.01]
    change = runs.one(a, b)
    assert change.verdict == "cannot tell"
    assert change.reason == (
        "it looks slower, but too few samples: 5 and 5 reach p = 0.0079 at best and not 0.002; 7 of each would do"
    )
    assert change.speed is not None
    assert change.speed.high < 0.6
    assert runs.one([*a, 1.06, 1.05], [*b, 2.06, 2.05]).verdict == "slower"


def test_five_steady_samples_each_are_enough_to_be_the_same(runs: Runs) -> None:
    change = runs.one([1.002, 1.004, 1.0, 1.003, 1.001], [1.002, 1.0, 1.004, 1.001, 1.003])
    assert (change.verdict, change.reason) == ("same", None)


@pytest.mark.parametrize(("count", "coverage"), [(1, "0%"), (2, "67%"), (3, "90%")])
def test_from_two_or_three_samples_nothing_is_concluded(runs: Runs, count: int, coverage: str) -> None:
    change = runs.one([1.0] * count, [1.0] * count)
    assert change.verdict == "cannot tell"
    assert change.reason == (
        f"too few samples ({count} and {count}): the interval covers the truth with {coverage} only; 4 of each would do"
    )


ratios = st.lists(st.floats(min_value=0.2, max_value=5), min_size=3, max_size=3).map(sorted)
shares = st.floats(min_value=0, max_value=0.5)


@given(ratios, st.floats(min_value=0, max_value=1), st.integers(1, 40), st.integers(1, 40), shares)
def test_seen_from_the_other_run_slower_is_faster_and_the_rest_stays(
    bounds: list[float], p: float, n: int, m: int, equivalence: float
) -> None:
    low, ratio, high = bounds
    verdict, reason = judge(RatioInterval(low, high, 0.99, ratio), p, n, m, equivalence)
    turned = RatioInterval(1 / high, 1 / low, 0.99, 1 / ratio)
    opposite = {"slower": "faster", "faster": "slower"}
    near = [abs(value * (1 - equivalence) ** side - 1) for value in bounds for side in (-1, 0, 1)]
    if min(near) > 1e-9:  # 1/x rounds
        assert judge(turned, p, m, n, equivalence)[0] == opposite.get(verdict, verdict)
    assert (reason is None) == (verdict != "cannot tell")


@given(ratios, st.floats(min_value=0, max_value=1), st.integers(1, 40), st.integers(1, 40), shares)
def test_slower_is_said_only_of_an_interval_below_one_a_significant_test_and_a_relevant_ratio(
    bounds: list[float], p: float, n: int, m: int, equivalence: float
) -> None:
    low, ratio, high = bounds
    verdict, _ = judge(RatioInterval(low, high, 0.99, ratio), p, n, m, equivalence)
    if verdict == "slower":
        assert high < 1
        assert p < 0.002
        assert ratio < 1 - equivalence
    if verdict == "same":
        assert 1 - equivalence <= low <= high <= 1 / (1 - equivalence)


# What stands beside a verdict.
def test_a_noisy_record_is_still_answered_and_the_noise_is_told(runs: Runs) -> None:
    flag = "steal: the hypervisor gave 9% of the CPU time to others"
    comparison = runs([measured(samples(1.0, seed=1))], [measured(samples(1.5, seed=2), noise=[flag])])
    (change,) = comparison.changes
    assert change.verdict == "slower"
    assert change.notes == (f"B is noisy: {flag}",)
    assert flag in shown(comparison)


def test_executions_of_different_size_are_compared_by_their_rates(runs: Runs) -> None:
    stream: dict[str, Any] = {"benchmark": "stream", "figure": "bytes", "params": {"kernel": "triad"}}
    a = measured(samples(1.0, seed=1), work=Work(bytes=1e9), **stream)
    b = measured(samples(2.0, seed=2), work=Work(bytes=2e9), **stream)
    (change,) = runs([a], [b]).changes
    assert change.verdict == "same"
    assert change.notes == ("one execution is 1e+09 bytes in A and 2e+09 in B, so the rates are compared",)


def test_work_known_in_one_run_only_leaves_the_times(runs: Runs) -> None:
    (change,) = runs([measured(samples(1.0, seed=1))], [measured(samples(1.0, seed=2), work=None)]).changes
    assert change.verdict == "same"
    assert change.notes == (
        "the work of one execution is known in one run only, so the times are compared as they are",
    )


def test_another_timer_and_another_clock_during_the_measurement_are_told(runs: Runs) -> None:
    def observed(clock: float) -> Telemetry:
        gauges = {"gpu.sm_clock": Gauge(minimum=clock, median=clock, maximum=clock, unit="MHz")}
        return Telemetry(interval_s=0.5, gauges=gauges, counters={})

    a = measured(samples(1.0), device="gpu", telemetry=observed(1980))
    b = measured(samples(1.0), device="gpu", telemetry=observed(1600), timer="nvbench")
    (change,) = runs([a], [b]).changes
    assert change.notes == (
        "timed by host in A and by nvbench in B",
        "gpu.sm_clock was 1980 MHz in A and 1600 MHz in B",
    )
    steady = measured(samples(1.0), device="gpu", telemetry=observed(1979))
    assert runs([a], [steady]).changes[0].notes == ()


def test_the_quality_of_a_training_stands_beside_its_speed(runs: Runs) -> None:
    comparison = runs([trained(samples(0.1), accuracy=0.9812)], [trained(samples(0.1), accuracy=0.9377)])
    (change,) = comparison.changes
    assert {name: (a.value, b.value) for name, (a, b) in change.qualities.items()} == {
        "test_accuracy": (0.9812, 0.9377)
    }
    assert "test_accuracy 0.9812 / 0.9377" in shown(comparison)


def test_a_record_with_impossible_samples_is_no_answer_and_no_crash(runs: Runs) -> None:
    good = measured(samples(1.0))
    assert good.timing is not None
    for broken in (
        good.model_copy(update={"timing": None}),
        good.model_copy(update={"timing": good.timing.model_copy(update={"samples": []})}),
        good.model_copy(update={"timing": good.timing.model_copy(update={"samples": [1.0, 0.0]})}),
    ):
        (change,) = runs([good], [broken]).changes
        assert (change.verdict, change.reason) == ("cannot tell", "a record without usable samples")


# Points that cannot be compared.
def test_failed_skipped_and_missing_points_are_listed_with_their_reasons(runs: Runs) -> None:
    small, large, huge = ({**MATMUL, "n": n} for n in (256, 4096, 65536))
    a = [measured(samples(1.0), params=small), measured(samples(1.0), params=large), failed("hung", params=huge)]
    b = [failed("wrong answer", params=small), failed("no GPU", benchmark="launch", params={}, status="skipped")]
    comparison = runs(a, [*b, failed("too large", params=huge, status="skipped")])
    assert comparison.changes == ()
    assert [(pair.point, pair.a.status, pair.b.status) for pair in comparison.unmeasured] == [
        ("matmul cpu impl=vendor n=256", "measured", "failed"),
        ("matmul cpu impl=vendor n=65536", "failed", "skipped"),
    ]
    assert comparison.only_a == ("matmul cpu impl=vendor n=4096",)
    assert comparison.only_b == ("launch cpu",)
    text = shown(comparison)
    assert "matmul cpu impl=vendor n=256: in A measured; in B failed (wrong answer)" in text
    assert "matmul cpu impl=vendor n=65536: in A failed (hung); in B skipped (too large)" in text
    assert "matmul cpu impl=vendor n=4096: only in A" in text
    assert "launch cpu: only in B" in text
    assert "No point was measured in both runs." in text


def test_points_of_other_devices_and_backends_do_not_match(runs: Runs) -> None:
    a = [measured(samples(1.0)), trained(samples(0.1), 0.9, backend="tensorflow")]
    b = [measured(samples(1.0), device="gpu"), trained(samples(0.1), 0.9, backend="jax")]
    comparison = runs(a, b)
    assert comparison.changes == ()
    assert len(comparison.only_a) == len(comparison.only_b) == 2


def test_an_unfinished_run_is_named(runs: Runs) -> None:
    comparison = runs([measured(samples(1.0))], [measured(samples(1.0))], status="interrupted")
    assert comparison.notes == ("B is not finished (interrupted): 1 of its 1 points have a record",)
    assert comparison.notes[0] in shown(comparison)


# --fail-on.
@given(st.decimals(min_value=0, max_value="99.9", places=1))
def test_fail_on_reads_every_percentage(percent: Any) -> None:
    assert parse_fail_on(f"slower:{percent}%") == FailOn(float(percent))
    assert parse_fail_on(f" slower : {percent} % ") == FailOn(float(percent))


@given(st.floats(min_value=0.1, max_value=99).map(lambda value: round(value, 2)))
def test_fail_on_reads_what_it_writes(percent: float) -> None:
    assert parse_fail_on(str(FailOn(percent))) == FailOn(percent)


@given(st.text() | st.from_regex(r"(slower|faster)?:?-?[0-9.e٣]*%?", fullmatch=True))
def test_fail_on_answers_any_text_with_a_rule_or_one_clear_line(text: str) -> None:
    try:
        rule = parse_fail_on(text)
    except UserError as error:
        complaint: str | None = str(error)
    else:
        complaint = None
        assert 0 <= rule.percent < 100
        assert text.strip().startswith("slower")
    if complaint is not None:
        assert "slower:5" in complaint
        assert "\n" not in complaint


@pytest.mark.parametrize(
    "text",
    [
        *("", "5%", "slower", "slower:", "slower:5", "slower:%", "slower:-5%", "slower:nan%", "slower:1e1%"),
        *("faster:5%", "slower:100%", "slower:5%,slower:6%", "slower:٥%", "slower:5.%"),
    ],
)
def test_a_fail_on_that_means_nothing_is_wrong_use(text: str) -> None:
    with pytest.raises(UserError, match="slower:5"):
        parse_fail_on(text)


def test_a_regression_is_a_point_slower_by_at_least_that_much(runs: Runs) -> None:
    comparison = runs([measured(samples(1.0, seed=1))], [measured(samples(1.25, seed=2))])
    (found,) = regressions(comparison, FailOn(5))
    assert (found.point, found.reason) == ("matmul cpu impl=vendor n=1024", "20 % slower")
    assert regressions(comparison, FailOn(30)) == ()


def test_neither_a_faster_nor_an_unproven_point_is_a_regression(runs: Runs) -> None:
    unproven = [1.0, 1.1, 1.2], [2.0, 2.1, 2.2]
    for a, b in ((samples(1.0), samples(0.5)), unproven, (samples(1.0, spread=0.5), samples(1.3, spread=0.5, seed=9))):
        assert regressions(runs([measured(a)], [measured(b)]), FailOn(0)) == ()


def test_a_share_finer_than_the_equivalence_is_obeyed(runs: Runs) -> None:
    a, b = measured(samples(1.0, spread=0.001, seed=1)), measured(samples(1.02, spread=0.001, seed=2))
    comparison = runs([a], [b])
    assert comparison.changes[0].verdict == "same"
    assert [found.reason for found in regressions(comparison, FailOn(1))] == ["2.0 % slower"]
    assert regressions(comparison, FailOn(3)) == ()


def test_a_point_that_b_failed_to_measure_is_a_regression_and_one_that_it_skipped_is_not(runs: Runs) -> None:
    a, broken = measured(samples(1.0)), failed("wrong answer: error 1, tolerated 1e-6")
    (found,) = regressions(runs([a], [broken]), FailOn(50))
    assert found.reason == "measured in A, failed in B: wrong answer: error 1, tolerated 1e-6"
    assert regressions(runs([a], [failed("no memory", status="skipped")]), FailOn(50)) == ()
    assert regressions(runs([broken], [broken]), FailOn(50)) == ()
    assert regressions(runs([a], []), FailOn(50)) == ()


# What is printed.
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_environment_comes_before_the_points_and_the_sum_last(runs: Runs, width: int) -> None:
    n = {"n256": {**MATMUL, "n": 256}, "n512": {**MATMUL, "n": 512}, "n1024": MATMUL}
    a = [measured(samples(1.0, seed=1), params=params) for params in n.values()]
    b = [measured(samples(t, seed=2), params=p) for t, p in zip((1.5, 0.5, 1.0), n.values(), strict=True)]
    text = shown(runs(a, b, (machine(), machine(cpu={"governor": "powersave"}))), width)
    assert text.index("What differs and matters") < text.index("powersave") < text.index("speed of B")
    for told in ("matmul cpu", "impl=vendor", "n=256", "× 0.6", "slower", "p < 0.0001", "× 2.0", "faster", "same"):
        assert told in text
    assert text.endswith("B: 1 slower, 1 faster, 1 same (same: within ±3.0 %)")


def test_equal_environments_are_said_to_be_equal(runs: Runs) -> None:
    record = measured(samples(1.0))
    assert "The environments agree in everything that matters." in shown(runs([record], [record]))


def test_text_of_a_stored_run_cannot_steer_the_terminal(runs: Runs) -> None:
    bad = failed("[bold]\x1b[2Jgone[/nonsense]", params={"impl": "\x1b]0;title\x07x"})
    text = shown(runs([bad], [bad], (machine(), machine(cpu={"model": "\x1b[31mred"}))))
    assert "\x1b" not in text
    assert "[bold]gone[/nonsense]" in text
    assert "red" in text
