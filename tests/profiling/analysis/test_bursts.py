"""Steps that come in bursts are named, and so are epochs whose turns take the time."""

from __future__ import annotations

from accelbench.profiling.analysis.bursts import bursts, epoch_turns
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steady import steady_steps


def stepped(samples: list[float], epochs: list[list[float]]) -> Timing:
    timing = Timing(samples=samples, stop="epochs done", timer="steps", summary=summarize(samples))
    return timing.model_copy(update={"steady": steady_steps(epochs)})


def test_even_steps_are_no_bursts() -> None:
    steps = [0.01, 0.0105, 0.0101, 0.0099]
    assert bursts(stepped(steps, [steps])) is None
    assert epoch_turns(stepped(steps, [steps])) is None


def test_input_that_comes_all_at_once_is_told_by_the_mean_beside_the_median() -> None:
    steps = [0.01, 0.01, 0.01, 0.05] * 10
    assert bursts(stepped(steps, [steps])) == "the steps come in bursts: mean step 2 times the median"


def test_mostly_slow_steps_are_bursts_too() -> None:
    steps = [0.01, 0.05, 0.05, 0.05] * 10
    assert bursts(stepped(steps, [steps])) == "the steps come in bursts: mean step 0.8 times the median"


def test_the_turns_of_epochs_are_told_apart_from_bursts() -> None:
    epochs = [[0.05, 0.01, 0.01, 0.01]] * 5
    timing = stepped([step for epoch in epochs for step in epoch[1:]], epochs)
    assert bursts(timing) is None
    assert str(epoch_turns(timing)).startswith("the turns of epochs take 50% of the time")


def test_what_is_not_measured_by_steps_has_no_bursts() -> None:
    samples = [1.0, 1.0, 5.0]
    timing = Timing(samples=samples, stop="time limit", timer="host", summary=summarize(samples))
    assert bursts(timing) is None
    assert epoch_turns(timing) is None
