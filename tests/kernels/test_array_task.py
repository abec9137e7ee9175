"""Tasks of kernels over long arrays on the CPU."""

from __future__ import annotations

import pytest

from accelbench.execution.plan import discover
from accelbench.kernels.lib.cpu import array_task
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

PARAMS = {
    "norm": {"width": 1024},
    "optimizer-step": {},
    "reduce": {"dtype": "float64"},
    "softmax-xent": {"vocabulary": 1000},
}


@pytest.mark.parametrize("name", PARAMS)
def test_arrays_that_do_not_fit_are_skipped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_task, "rows_per_array", lambda width, threads, itemsize: 10**15)
    with pytest.raises(Skip):
        discover()[name].prepare(Point(name, "cpu", PARAMS[name] | {"impl": "numba"}, seed=7))
