"""What a probe costs: stretches with and without it, compared by their means."""

from __future__ import annotations

from contextlib import nullcontext
from math import nan
from pathlib import Path

import pytest

from accelbench.profiling.host.overhead import step_overhead
from accelbench.profiling.records.host import Window
from tests.bench_self import probes as overhead
from tests.bench_self.probes import matrix_product, measure_overhead, probes


def window(begin: float, end: float) -> Window:
    return Window(kind="all", begin_s=begin, end_s=end, rate_hz=10, looks=10, cost_s=0.0)


def ends(*stretches: tuple[int, float]) -> list[float]:
    """The ends of so many steps of such a length, one stretch after the other from 0."""
    found = [0.0]
    for steps, length in stretches:
        found += [found[-1] + length * (step + 1) for step in range(steps)]
    return found


def test_steps_inside_a_window_are_compared_with_those_after_it() -> None:
    cost = step_overhead(ends((100, 0.02), (100, 0.01), (100, 0.02), (100, 0.01)), [window(0, 2), window(3, 5)])
    assert cost is not None
    assert cost.factor == pytest.approx(2.0, rel=0.02)
    assert cost.pairs == 2


def test_a_few_steps_that_a_probe_halts_count_with_all_the_time_they_lost() -> None:
    """Nine of ten steps are untouched, and the median would see nothing."""
    cost = step_overhead(ends(*[(9, 0.01), (1, 0.02)] * 10, (100, 0.01)), [window(0, 1.1)])
    assert cost is not None
    assert cost.factor == pytest.approx(1.1, rel=0.02)


def test_without_steps_on_both_sides_nothing_is_known() -> None:
    assert step_overhead(ends((10, 0.01)), [window(0, 1)]) is None
    assert step_overhead(ends((10, 0.01)), []) is None
    assert step_overhead([], [window(0, 1)]) is None


def test_what_lies_between_epochs_is_no_step() -> None:
    epochs = [0.0, 1.0, 2.0, nan, 50.0, 51.0, 52.0]
    cost = step_overhead(epochs, [window(0, 3)])
    assert cost is not None
    assert cost.factor == 1


@pytest.mark.slow
def test_every_probe_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(overhead, "STRETCH_S", 0.3)
    found = {name: measure_overhead(probe, matrix_product(), rounds=2) for name, probe in probes(tmp_path).items()}
    assert list(found) == ["telemetry", "host counters", "py-spy"]
    assert all(cost.sentence().endswith("2 pairs)") for cost in found.values())


def test_the_order_of_a_pair_is_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = iter([1.0, 2.0, 1.0, 2.0])  # what is worked through first is always the faster
    monkeypatch.setattr(overhead, "_stretch", lambda run: next(lengths))
    cost = measure_overhead(nullcontext, lambda: None, rounds=2)
    assert (cost.low, cost.high) == (0.5, 2.0)
