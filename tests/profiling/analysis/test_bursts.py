"""Steps that come in bursts are named, and so are epochs whose turns take the time."""

from __future__ import annotations

from profiling.analysis.bursts import bursts
from profiling.records.timing import Timing
from profiling.timing.statistics import summarize
from profiling.timing.steady import steady_steps


def said(samples: list[float], epochs: list[list[float]]) -> list[str]:
    timing = Timing(samples=samples, stop="epochs done", timer="steps", summary=summarize(samples))
    return list(bursts(timing.model_copy(update={"steady": steady_steps(epochs)})))


def test_even_steps_are_no_bursts() -> None:
    steps = [0.01, 0.0105, 0.0101, 0.0099]
    assert said(steps, [steps]) == []


def test_input_that_comes_all_at_once_is_told_by_the_mean_beside_the_median() -> None:
    steps = [0.01, 0.01, 0.01, 0.05] * 10
    assert said(steps, [steps]) == ["the steps come in bursts: mean step 2 times the median"]


def test_mostly_slow_steps_are_bursts_too() -> None:
    steps = [0.01, 0.05, 0.05, 0.05] * 10
    assert said(steps, [steps]) == ["the steps come in bursts: mean step 0.8 times the median"]


def test_the_turns_of_epochs_are_told_apart_from_bursts() -> None:
    epochs = [[0.05, 0.01, 0.01, 0.01]] * 5
    (sentence,) = said([step for epoch in epochs for step in epoch[1:]], epochs)
    assert sentence.startswith("the turns of epochs take 50% of the time")


def test_what_is_not_measured_by_steps_has_no_bursts() -> None:
    samples = [1.0, 1.0, 5.0]
    assert not list(bursts(Timing(samples=samples, stop="time limit", timer="host", summary=summarize(samples))))
