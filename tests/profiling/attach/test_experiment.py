"""Tests of the experiment on the input: same batches, same order, same random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from accelbench.profiling.attach.batches import bytes_of, first_array
from accelbench.profiling.attach.experiment import FEWEST, PROBED, WINDOW_S, InputExperiment

WANTED = 8


def train(
    batches: Iterator[float], experiment: InputExperiment | None, last: int = 10**6, model_draws: bool = False
) -> list[float]:
    """Return the values of a training loop of at most `last` steps; the model may draw a number in each step."""
    found: list[float] = []
    while len(found) < last:
        try:
            batch = experiment.next_batch(next, batches) if experiment else next(batches)
        except StopIteration:
            break
        found.append(batch + (random.random() if model_draws else 0))
        if experiment:
            experiment.step_ended()
    return found


def random_batches(count: int) -> Iterator[float]:
    for number in range(count):
        yield number + random.random()


def plain_batches(count: int) -> Iterator[float]:
    yield from map(float, range(count))


def experiment(wanted: int = WANTED) -> InputExperiment:
    taken = InputExperiment(lambda: None)
    taken.begin(wanted, 1 << 20)
    return taken


@pytest.mark.parametrize("last", [10**6, 9, 15])
@pytest.mark.parametrize("make", [random_batches, plain_batches])
def test_the_training_and_later_random_numbers_are_the_same(make: type[Iterator[float]], last: int) -> None:
    random.seed(1)
    expected = [*train(make(20), None, last), random.random()]
    random.seed(1)
    taken = experiment()
    assert [*train(make(20), taken, last), random.random()] == expected
    assert taken.prefetched == WANTED
    assert taken.same_random_numbers
    assert taken.over == (last > PROBED + 1 + WANTED)


def test_numbers_drawn_by_the_model_alone_are_the_same() -> None:
    random.seed(1)
    expected = train(plain_batches(20), None, model_draws=True)
    random.seed(1)
    taken = experiment()
    assert train(plain_batches(20), taken, model_draws=True) == expected
    assert taken.prefetched == WANTED


def test_a_generator_of_both_input_and_model_refuses_the_experiment() -> None:
    random.seed(1)
    expected = train(random_batches(20), None, model_draws=True)
    random.seed(1)
    taken = experiment()
    assert train(random_batches(20), taken, model_draws=True) == expected
    assert not taken.prefetched
    assert taken.refused
    assert "random" in taken.refused


def test_too_short_epochs_refuse_the_experiment() -> None:
    taken = experiment()
    for _ in range(4):
        assert train(plain_batches(PROBED + 1 + FEWEST - 1), taken) == [*map(float, range(PROBED + FEWEST))]
    assert not taken.prefetched
    assert taken.refused
    assert taken.used_up


def test_the_next_epoch_is_used_if_few_batches_are_left() -> None:
    taken, first = experiment(60), plain_batches(100)
    assert [next(first) for _ in range(80)] == [*range(80)]
    assert train(first, taken) == [*range(80, 100)]
    assert not taken.prefetched
    assert train(plain_batches(100), taken) == [*range(100)]
    assert taken.prefetched == 60


def test_a_repetition_keeps_the_order_of_batches_and_their_end() -> None:
    ends = []

    def produce(batches: list[int]) -> int:
        if batches:
            return batches.pop(0)
        ends.append(True)
        raise StopIteration

    batches, taken, found, prefetched = [*range(72)], experiment(), [], []
    for _ in range(72):
        found.append(taken.next_batch(produce, batches))
        if taken.step_ended():
            prefetched.append(taken.prefetched)
            taken.begin(60, 1 << 20)
    with pytest.raises(StopIteration):
        taken.next_batch(produce, batches)
    assert found == [*range(72)]
    assert prefetched == [WANTED, 56]  # each repetition begins after PROBED + 1 batches
    assert ends == [True]


@pytest.mark.parametrize(("make", "plain"), [(plain_batches, True), (random_batches, False)])
def test_devices_are_waited_for_at_both_ends_of_the_timed_steps(make: type[Iterator[float]], plain: bool) -> None:
    batches, taken, kinds, waits, plains = make(30), experiment(10), [], [], []
    for step in range(20):
        taken.next_batch(next, batches)
        kinds.append(taken.kind)
        plains.append(taken.plain)
        if taken.synchronizes():
            waits.append(step)
        taken.step_ended()
    probes = PROBED + 1
    assert kinds == ["probed"] * probes + ["cold"] * 2 + ["prefetched"] * 8 + ["probed"] * (20 - 10 - probes)
    assert waits == [probes + 1, probes + 9]
    assert plains == [plain and probes <= step < probes + 9 for step in range(20)]


def test_threads_that_prepare_batches_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([0.0, 0.02, 0.02, 0.03, 0.03, 0.03])
    pauses: list[float] = []
    monkeypatch.setattr("accelbench.profiling.attach.experiment.process_time", lambda: next(used))
    monkeypatch.setattr("accelbench.profiling.attach.experiment.sleep", pauses.append)
    assert train(plain_batches(20), experiment()) == [*range(20)]
    assert pauses == [0.0, WINDOW_S, WINDOW_S, WINDOW_S]


def test_loaders_that_alternate_refuse_the_experiment() -> None:
    loaders, taken = (plain_batches(100), plain_batches(100)), experiment()
    assert [taken.next_batch(next, loaders[number % 2]) for number in range(100)] == [*np.repeat(range(50), 2)]
    assert taken.refused
    assert taken.used_up


def test_an_error_of_the_input_is_raised_at_its_step() -> None:
    def failing() -> Iterator[float]:
        yield from range(10)
        raise OSError("disk")

    batches, taken = failing(), experiment()
    found = [taken.next_batch(next, batches) for _ in range(10)]
    assert found == [*range(10)]
    with pytest.raises(OSError, match="disk"):
        taken.next_batch(next, batches)


def test_a_batch_has_the_examples_and_bytes_of_its_arrays() -> None:
    x, y = np.zeros((32, 4), np.float32), np.zeros(32, np.int64)
    for batch, keys in (((x, y), (0,)), ({"x": x, "y": y}, ("x",)), ([({"x": x}, y)], (0, 0, "x"))):
        assert (first_array(batch), bytes_of(batch)) == ((keys, 32), 32 * 4 * 4 + 32 * 8)
    assert (first_array("text"), bytes_of("text")) == (((), 0), 0)
