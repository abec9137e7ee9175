"""Tests of the overhead of a probe: mean step times with and without it."""

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
    """Return the end times of consecutive stretches `(steps, step length)` that start at 0."""
    found = [0.0]
    for steps, length in stretches:
        found += [found[-1] + length * (step + 1) for step in range(steps)]
    return found


def test_steps_inside_a_window_are_compared_with_those_after_it() -> None:
    cost = step_overhead(ends((100, 0.02), (100, 0.01), (100, 0.02), (100, 0.01)), [window(0, 2), window(3, 5)])
    assert cost is not None
    assert cost.factor == pytest.approx(2.0, rel=0.02)
    assert cost.pairs == 2


def test_a_few_delayed_steps_count_with_all_their_lost_time() -> None:
    """Nine of ten steps are not delayed: the mean changes, the median does not."""
    cost = step_overhead(ends(*[(9, 0.01), (1, 0.02)] * 10, (100, 0.01)), [window(0, 1.1)])
    assert cost is not None
    assert cost.factor == pytest.approx(1.1, rel=0.02)


def test_without_steps_inside_and_after_a_window_the_overhead_is_none() -> None:
    assert step_overhead(ends((10, 0.01)), [window(0, 1)]) is None
    assert step_overhead(ends((10, 0.01)), []) is None
    assert step_overhead([], [window(0, 1)]) is None


def test_the_time_between_epochs_is_not_a_step() -> None:
    epochs = [0.0, 1.0, 2.0, nan, 50.0, 51.0, 52.0]
    cost = step_overhead(epochs, [window(0, 3)])
    assert cost is not None
    assert cost.factor == 1


@pytest.mark.slow
def test_every_probe_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(overhead, "PERIOD_S", 0.3)
    found = {name: measure_overhead(probe, matrix_product(), rounds=2) for name, probe in probes(tmp_path).items()}
    assert list(found) == ["telemetry", "host counters", "py-spy"]
    assert all(cost.sentence().endswith("2 pairs)") for cost in found.values())


def test_the_order_of_the_pairs_alternates(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = iter([1.0, 2.0, 1.0, 2.0])  # the first measurement of a pair is always the faster one
    monkeypatch.setattr(overhead, "_mean_seconds", lambda run: next(lengths))
    cost = measure_overhead(nullcontext, lambda: None, rounds=2)
    assert (cost.low, cost.high) == (0.5, 2.0)
