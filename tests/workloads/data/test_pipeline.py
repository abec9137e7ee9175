"""The order of examples is the same on every backend and for any number of workers."""

from __future__ import annotations

import threading
from itertools import islice
from types import GeneratorType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.host.rules import classify
from accelbench.profiling.host.stacks import parse_stack
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import batches_from_memory, feed
from tests.fixtures.warm import run_on_all
from tests.requirements import ANY_BACKEND, BACKENDS, installed_backends


def point(backend: str, seed: int = 3, **params: int) -> Point:
    return Point("some", "cpu", params, backend, seed)


class Squares:
    """Examples produced one by one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.threads: set[str] = set()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        self.threads.add(threading.current_thread().name)
        return {"number": np.full(2, index, np.float32)}, np.int64(index * index)


class SquaresOfTwo(Squares):
    """Examples that make the first thread wait for a second one, as a fast thread could produce all batches."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.second = threading.Event()

    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        if len(self.threads) > 1:
            self.second.set()
        self.second.wait(60)
        return found


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 40),
    batch=st.integers(1, 12),
    epochs=st.integers(1, 3),
    backend=st.sampled_from(installed_backends()),
)
def test_every_epoch_has_full_batches_of_different_examples(count: int, batch: int, epochs: int, backend: str) -> None:
    arrays = np.arange(count), np.arange(count) * 2
    if batch > count:
        with pytest.raises(Skip, match=rf"\bbatch={batch}\b.*\b{count}\b"):
            feed(point(backend), arrays, batch=batch, epochs=epochs)
        return
    fed = feed(point(backend), arrays, batch=batch, epochs=epochs)
    batches = [(np.asarray(x), np.asarray(y)) for x, y in fed.data]
    assert fed.steps == count // batch
    assert len(batches) == epochs * fed.steps
    for epoch in range(epochs):
        seen = np.concatenate([x for x, _ in batches[epoch * fed.steps : (epoch + 1) * fed.steps]])
        assert len(set(seen.tolist())) == fed.steps * batch
    assert all((y == 2 * x).all() for x, y in batches)


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_order_is_the_same_for_all_backends_and_kinds_of_examples(workers: int, backend: str) -> None:
    numbers = np.arange(20)
    arrays = ({"number": np.stack([numbers, numbers], axis=1).astype(np.float32)}, numbers * numbers)
    orders = []
    for framework in (ANY_BACKEND, backend):
        for examples in (arrays, Squares(20)):
            fed = feed(point(framework, workers=workers, prefetch=4), examples, batch=4, epochs=2)
            orders.append([np.asarray(y).tolist() for _, y in fed.data])
    assert orders[0] == orders[1] == orders[2] == orders[3]
    assert orders[0][:5] != orders[0][5:], "both epochs have the same order"
    other = feed(point(backend, seed=4), arrays, batch=4, epochs=2)
    assert [np.asarray(y).tolist() for _, y in other.data] != orders[0]


def test_time_spent_in_the_pipeline_is_counted_as_input() -> None:
    stack = parse_stack(
        "thread (1): a;_ahead (accelbench/workloads/data/pipeline.py:7);result (concurrent/futures/_base.py:451)"
    )
    feed(point("jax"), (np.arange(4), np.arange(4)), batch=2, epochs=1)
    assert classify(stack) == "input"


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_batches_are_produced_by_worker_threads(backend: str) -> None:
    examples = SquaresOfTwo(32)
    list(feed(point(backend, workers=3, prefetch=6), examples, batch=2, epochs=2).data)
    assert len(examples.threads) > 1
    assert threading.current_thread().name not in examples.threads


def test_closing_a_feed_early_ends_its_threads() -> None:
    data = feed(point("jax", workers=2, prefetch=2), Squares(100), batch=2, epochs=5).data
    next(data)
    data.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("input")]


class CountedSquares(Squares):
    """Examples that count how many were produced."""

    made = 0

    def __getitem__(self, index: int) -> Any:
        self.made += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_from_memory_are_the_first_ones_repeated_in_every_training(backend: str) -> None:
    examples = CountedSquares(80)
    fed = feed(point(backend, prefetch=2), examples, batch=2, epochs=1)
    first = [np.asarray(y).tolist() for _, y in islice(fed.data, 3)]
    before = examples.made
    with batches_from_memory(3):
        assert isinstance(fed.data, GeneratorType) == (backend != "tensorflow")  # Keras takes no other iterator
        for _ in range(4):
            assert [np.asarray(y).tolist() for _, y in islice(fed.data, 40)] == [*first * 13, first[0]]
        assert examples.made - before < 4 * 3 * 2
    assert len(list(fed.data)) == 40


def test_each_feed_repeats_its_own_batches() -> None:
    feeds = [feed(point("jax", seed=seed), Squares(40), batch=2, epochs=1) for seed in (1, 2)]
    with batches_from_memory(1):
        one, other = ([np.asarray(y).tolist() for _, y in islice(fed.data, 2)] for fed in feeds)
    assert one[0] == one[1] != other[0] == other[1]


TRAIN = """
import json, os, sys
from accelbench.profiling.records.point import Point
from accelbench.workloads.training.keras_model import use_backend
point = Point("some", "cpu", {"workers": 2}, os.environ["KERAS_BACKEND"], 5)
strategy = use_backend(point)
import keras, numpy as np
from accelbench.workloads.data.pipeline import feed
rng = np.random.default_rng(1)
x = rng.normal(size=(64, 8)).astype("float32")
y = np.tanh(x @ rng.normal(size=(8, 3))).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(3)])
model.set_weights([np.random.default_rng(2).normal(size=w.shape) * 0.3 for w in model.get_weights()])
model.compile("adam", "mse")
history = strategy.train(model, feed(point, (x, y), batch=8, epochs=3), 3, [])
print(json.dumps({"loss": history["loss"], "tensorflow": "tensorflow" in sys.modules}))
"""


@pytest.fixture(scope="module")
def trained() -> dict[str, dict[str, Any]]:
    return run_on_all(TRAIN)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_losses_agree_on_every_backend(trained: dict[str, dict[str, Any]], backend: str) -> None:
    reference = trained["tensorflow"]["loss"]
    assert trained[backend]["loss"] == pytest.approx(reference, rel=1e-4)
    assert reference[2] < reference[0]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensorflow_is_imported_only_for_its_own_training(trained: dict[str, dict[str, Any]], backend: str) -> None:
    assert trained[backend]["tensorflow"] == (backend == "tensorflow")
