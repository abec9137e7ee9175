"""Costs of a point's processes: which repetitions and samples count."""

from __future__ import annotations

from typing import Any

import pytest

from accelbench.profiling.analysis.cost import cost, costs_of_processes
from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import SampleCauses
from tests.fixtures.compare_runs import measured


def repetition(number: int, seconds: float, upper_bound: str | None = None, **fields: Any) -> Record:
    """Return a repetition with 20 samples of that time, and 20 faster ones that do not count."""
    found = measured(
        [seconds] * 20 + [seconds / 2] * 20, round=number, order=number, figure="time", work=None, **fields
    )
    assert found.timing is not None
    causes = SampleCauses(source="schedstat", used=[(0, 20)])
    timing = found.timing.model_copy(update={"causes": causes, "upper_bound": upper_bound})
    return found.model_copy(update={"timing": timing})


def processes(record: Record) -> list[float]:
    whole = cost(record)
    assert whole is not None
    return costs_of_processes(record, whole)


def test_the_cost_is_the_median_of_the_clean_samples_of_the_processes() -> None:
    joined = join([repetition(1, 1.0), repetition(2, 1.1), repetition(3, 9.0)])
    assert cost(joined) == pytest.approx(1.1)
    assert processes(joined) == pytest.approx([1.0, 1.1, 9.0])


def test_bounds_and_noisy_repetitions_are_left_out_if_there_are_others() -> None:
    bound, noisy = repetition(2, 9.0, "too few clean samples"), repetition(3, 8.0, noise=["steal: 9%"])
    assert processes(join([repetition(1, 1.0), bound, noisy])) == pytest.approx([1.0])
    assert processes(join([repetition(1, 9.0, "too few clean samples"), bound])) == pytest.approx([9.0, 9.0])
    assert processes(noisy) == pytest.approx([8.0])
