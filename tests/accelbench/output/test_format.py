"""Tests of number formats: digits, units, intervals, shares."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.output.format import digits, headline, metric, metric_texts, percent, quality_text, read, read_result
from accelbench.profiling.records.quality import Data, Metric, Quality, WorstQuality
from accelbench.profiling.records.record import Record
from tests.fixtures.compare_runs import in_rounds
from tests.fixtures.report_records import record, timing, training, unmeasured


@given(st.floats(1e-12, 1e24), st.sampled_from(["FLOP/s", "B/s", "images/s", "s"]))
def test_a_result_keeps_three_digits(value: float, unit: str) -> None:
    reading = read(value, unit)
    prefix = reading.unit.removesuffix(unit).strip()
    factor = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    assert float(reading.value.replace(",", "")) * factor[prefix] == pytest.approx(value, rel=6e-3)


@given(st.floats(-1e20, 1e20), st.integers(1, 6))
def test_digits_are_rounded(value: float, significant: int) -> None:
    assert float(digits(value, significant).replace(",", "")) == pytest.approx(value, rel=10.0 ** (1 - significant))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((102.34e9, "FLOP/s", 102.0e9, 102.7e9), "102.3 GFLOP/s ±0.4 %"),
        ((102.34e9, "FLOP/s", 99e9, 103e9), "102 GFLOP/s 99.0–103"),
        ((999.96e9, "B/s"), "1.00 TB/s"),
        ((12_345.0, "images/s"), "12,300 images/s"),
        ((1.31e9, "nodes/s"), "1.31 G nodes/s"),
        ((5.87e-6, "s", 5.8e-6, 5.95e-6), "5.87 µs ±1.4 %"),
        ((61e-3, "s"), "61.0 ms"),
        ((0.0, "s"), "0 s"),
        ((float("nan"), "s"), "nan s"),
    ],
)
def test_formatted_results(arguments: tuple[Any, ...], text: str) -> None:
    assert str(read(*arguments)) == text


def test_small_percentages_keep_a_digit() -> None:
    assert [percent(x) for x in (0.0, 4e-9, 0.0004, 0.032, 0.92, 1.04)] == [
        "0.0 %",
        "<0.001 %",
        "0.04 %",
        "3.2 %",
        "92 %",
        "104 %",
    ]


def test_counts_are_exact_and_qualities_have_four_digits() -> None:
    found = [metric(Metric(*of)) for of in ((1_199_882.0,), (0.97312,), (1.0,), (0.0021, "s"), (4.1, "%"))]
    assert found == ["1,199,882", "0.9731", "1", "2.10 ms", "4.10 %"]


def test_the_headline_of_an_unmeasured_point_is_its_status_and_reason() -> None:
    assert headline(unmeasured("x", "failed", "it crashed")) == "failed: it crashed"
    assert headline(record("launch", timing=timing(2e-6, spread=0.0))) == "2.000 µs ±0.0 %"


def with_metrics(**metrics: float) -> tuple[Record, Quality]:
    """Return a training record with these metrics, and its quality."""
    worst = (
        WorstQuality("accuracy_worst_subject", "5 held-out subjects"),
        WorstQuality("accuracy_worst", "3 trainings"),
    )
    quality = Quality("accuracy", headline=True, deviation="accuracy_std", of="examples", worst=worst)
    found = training(
        "cpu",
        "float32",
        0.01,
        data=Data("synthetic", train=10, held_out=500, trainings=3),
        metrics={name: Metric(value) for name, value in metrics.items()},
        qualities=[quality],
    )
    return found, quality


def test_a_quality_is_formatted_with_interval_deviation_and_worst() -> None:
    assert quality_text(*with_metrics(accuracy=0.9731)) == "0.9731 (0.955–0.984 by 500 examples)"
    everything = with_metrics(accuracy=0.9731, accuracy_std=0.0042, accuracy_worst=0.968, accuracy_worst_subject=0.74)
    assert quality_text(*everything) == (
        "0.9731 (0.955–0.984 by 500 examples), ±0.0042 over 3 trainings, worst of 5 held-out subjects 0.74, "
        "worst of 3 trainings 0.968"
    )


def test_metrics_of_a_quality_s_uncertainty_are_not_repeated() -> None:
    found, _ = with_metrics(accuracy=0.9731, accuracy_std=0.004, accuracy_worst=0.968, sum_error=1e-7)
    assert list(metric_texts(found)) == ["accuracy", "sum_error"]


def test_the_rate_of_a_training_workload_is_over_all_steady_steps() -> None:
    steady = training("cpu", "float32", 0.01)
    assert steady.timing is not None
    assert steady.timing.steady is not None
    reading = read_result(steady)
    assert reading is not None
    assert reading.value == digits(128 * steady.timing.steady.steps / steady.timing.steady.seconds, 3)


def test_repetitions_that_differ_by_more_than_a_factor_of_two_are_listed_in_place_of_an_interval() -> None:
    medians = (1.0, 4.6, 1.01)
    close, apart = (read_result(in_rounds(each)) for each in ((1.0, 1.01, 1.02), medians))
    assert close is not None
    assert apart is not None
    assert close.interval
    listed = [float(number) for number in re.findall(r"[\d.]+", apart.repetitions)]
    assert [listed[0] / rate for rate in listed] == pytest.approx(medians, rel=0.01)
    assert not close.repetitions
    assert not apart.interval
