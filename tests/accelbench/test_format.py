"""How figures read: digits, units, intervals, shares."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.format import digits, headline, metric, percent, plain, read
from profiling.records.quality import Metric
from tests.fixtures.report_records import record, timing, unmeasured


@given(st.floats(1e-12, 1e24), st.sampled_from(["FLOP/s", "B/s", "images/s", "s"]))
def test_a_figure_keeps_three_digits_of_its_value(value: float, unit: str) -> None:
    reading = read(value, unit)
    prefix = reading.unit.removesuffix(unit).strip()
    factor = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    assert float(reading.value.replace(",", "")) * factor[prefix] == pytest.approx(value, rel=6e-3)


@given(st.floats(-1e20, 1e20), st.integers(1, 6))
def test_digits_round_to_that_many(value: float, significant: int) -> None:
    assert float(digits(value, significant).replace(",", "")) == pytest.approx(value, rel=10.0 ** (1 - significant))


@given(st.text())
def test_plain_text_has_no_control_characters_and_loses_nothing_else(text: str) -> None:
    kept = plain(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", kept)
    if "\x1b" not in text:
        assert kept == re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)


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
def test_figures_read_as_people_write_them(arguments: tuple[Any, ...], text: str) -> None:
    assert str(read(*arguments)) == text


def test_small_shares_keep_a_digit() -> None:
    assert [percent(x) for x in (0.0, 4e-9, 0.0004, 0.032, 0.92, 1.04)] == [
        "0.0 %",
        "<0.001 %",
        "0.04 %",
        "3.2 %",
        "92 %",
        "104 %",
    ]


def test_a_count_is_exact_and_a_quality_has_four_digits() -> None:
    found = [metric(Metric(*of)) for of in ((1_199_882.0,), (0.97312,), (1.0,), (0.0021, "s"), (4.1, "%"))]
    assert found == ["1,199,882", "0.9731", "1", "2.10 ms", "4.10 %"]


def test_the_headline_of_an_unmeasured_point_is_its_reason() -> None:
    assert headline(unmeasured("x", "failed", "it\x1b[31m crashed")) == "failed: it crashed"
    assert headline(record("launch", timing=timing(2e-6, spread=0.0))) == "2.000 µs ±0.0 %"
