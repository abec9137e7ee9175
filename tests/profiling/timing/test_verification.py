"""Verification of arrays: the largest error of any element decides, and NaN is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.records.quality import Verification
from accelbench.profiling.timing import verification
from accelbench.profiling.timing.verification import outcome_of, relative_error, verify_close


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_equal_arrays_have_no_error(values):
    assert relative_error(np.array(values), np.array(values)) == 0


@given(size=st.integers(1, 300), data=st.data())
def test_one_wrong_element_anywhere_is_found(size, data):
    position = data.draw(st.integers(0, size - 1))
    expected = np.linspace(1, 2, size)
    found = expected.copy()
    found[position] *= 1 + 1e-6
    assert relative_error(found, expected) == pytest.approx(1e-6, rel=1e-6)
    found[position] = np.nan
    assert relative_error(found, expected) == math.inf


def test_an_error_beyond_the_first_chunk_is_found(monkeypatch):
    monkeypatch.setattr(verification, "AT_ONCE", 10)
    found = np.ones((7, 5))
    found[6, 4] = 2
    assert relative_error(found, np.ones((7, 5))) == 1


def test_an_error_at_an_expected_zero_is_infinite_without_a_scale():
    assert relative_error([1e-9], [0.0]) == math.inf
    assert relative_error([1e-9], [0.0], scale=[1.0]) == 1e-9


def test_arrays_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        relative_error(np.ones((2, 3)), np.ones((3, 2)))


def test_the_tolerance_decides_and_is_recorded():
    assert verify_close([1.0 + 1e-7], [1.0], 1e-6, "closed form").passed
    failed = verify_close([1.0 + 1e-5], [1.0], 1e-6, "closed form")
    assert not failed.passed
    assert failed.tolerance == 1e-6
    assert failed.error == pytest.approx(1e-5, rel=1e-3)


@given(st.integers(0, 2), st.integers(0, 4), st.integers(1, 15))
def test_a_wrong_answer_has_the_element_with_the_largest_error(row, column, at_once):
    expected = np.ones((3, 5))
    found = expected + 0.1
    found[row, column] = 7.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelbench.profiling.timing.verification.AT_ONCE", at_once)
        failed = verify_close(found, expected, 1e-6, "closed form")
    reason = f"error 6.5, tolerated 1e-06, expected 1.0 at [{row}, {column}], found 7.5"
    assert outcome_of(failed)["reason"].endswith(f": closed form: {reason}")
    assert verify_close(expected, expected, 0.0, "closed form").expected is None


def test_the_error_of_an_unwritten_answer_is_finite_for_json():
    failed = verify_close([math.nan], [1.0], 1e300, "closed form")
    assert not failed.passed
    assert failed.error is not None
    assert math.isfinite(failed.error)


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({}, "no details"),
        ({"expected": "1", "found": "2"}, "expected 1, found 2"),
        ({"found": "2"}, "found 2"),
        ({"expected": "1"}, "expected 1"),
        ({"error": 0.5, "tolerance": 0.1}, "error 0.5, tolerated 0.1"),
        ({"error": 0.5}, "error 0.5"),
    ],
)
def test_the_reason_of_a_wrong_answer_has_the_fields_of_its_check(fields, detail):
    assert outcome_of(Verification(passed=False, method="sorted", **fields))["reason"].endswith(f": sorted: {detail}")
