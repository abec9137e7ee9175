"""Training curves: ticks are at integer epochs."""

from __future__ import annotations

import re

import pytest

from accelbench.report.curves_plot import training_curves
from tests.fixtures.report_records import training


@pytest.mark.parametrize("epochs", [1, 2, 5, 40])
def test_ticks_are_at_integer_epochs(epochs: int) -> None:
    curves = {"loss": [1 / (n + 1) for n in range(epochs)]}
    drawn = training_curves(training("cpu", "float32", 0.01, curves=curves), "curves")
    assert drawn is not None
    (axis,) = re.findall(r'<g id="curves-matplotlib.axis_1">.*?(?=<g id="curves-matplotlib.axis_2">)', drawn, re.S)
    ticks = re.findall(r"<text[^>]*>([^<]+)</text>", axis)
    assert ticks[-1] == "epoch"
    assert all(tick.isdigit() for tick in ticks[:-1])
    assert len(set(ticks)) == len(ticks)
