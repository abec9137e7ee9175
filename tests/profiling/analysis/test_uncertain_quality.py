"""Confidence interval of a quality that is a share of the held-out examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.analysis.uncertain_quality import quality_interval, wilson
from accelbench.profiling.records.quality import Data, Metric, Quality
from tests.fixtures.report_records import training

SHARE = Quality("test_accuracy", of="examples")


def found(value: float, held_out: int = 500, quality: Quality = SHARE) -> tuple[float, float] | None:
    data = Data("synthetic", train=10, held_out=held_out)
    return quality_interval(
        training("cpu", "float32", 0.01, data=data, metrics={"test_accuracy": Metric(value)}), quality
    )


def test_a_published_example() -> None:
    # 81 of 263: E. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    assert wilson(81 / 263, 263) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    assert wilson(0.0, 20) == (0.0, pytest.approx(0.1611, abs=5e-5))


@given(count=st.integers(1, 10_000), data=st.data())
def test_the_interval_contains_the_share_and_is_symmetric_in_the_complement(count: int, data: st.DataObject) -> None:
    share = data.draw(st.integers(0, count)) / count
    low, high = wilson(share, count)
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    assert wilson(1 - share, count) == (pytest.approx(1 - high, abs=1e-9), pytest.approx(1 - low, abs=1e-9))


@pytest.mark.parametrize(("true", "count"), [(0.97, 100), (0.9, 500), (0.5, 30)])
def test_the_interval_covers_the_true_share_with_about_its_confidence(true: float, count: int) -> None:
    right = np.random.default_rng(5).binomial(count, true, 4000)
    covered = [low <= true <= high for low, high in (wilson(int(n) / count, count) for n in right)]
    assert 0.93 < np.mean(covered) < 0.98


def test_only_a_share_of_examples_has_an_interval() -> None:
    assert found(0.97) == wilson(0.97, 500)
    assert found(0.97, quality=Quality("test_accuracy")) is None, "it is not declared as a share"
    assert found(0.97, quality=Quality("test_f1", of="examples")) is None, "it is not measured"
    assert found(0.97, held_out=0) is None
    assert found(math.nan) is None
