"""Trainings held back by one thing each: `python -m tests.profiling.bound_workloads NAME BACKEND` tells the verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from profiling.benchmark import Benchmark, Data, Metric, Point, Training, Verification, Work
from profiling.environment.collect import collect
from profiling.measure import measure
from workloads.training.keras_model import use_backend
from workloads.training.pipeline import feed

STEPS, BATCH, INPUTS = 60, 32, 64
SLEEP_S = 0.03
LOOP = 400_000
"""Turns that take some 20 ms."""

Batch = tuple[Any, Any]


def main(name: str, backend: str) -> None:
    point = Point(name, "cpu", {"batch": BATCH}, backend, seed=1)
    benchmark = Benchmark(name, WORKLOADS[name], ("cpu",), {"batch": (BATCH,)}, figure="items", backends=(backend,))
    record = measure(benchmark, point, collect(), max_seconds=1)
    assert record.profile is not None, record.reason
    print(record.profile.bottleneck.model_dump_json())


def slow_input(point: Point) -> Training:
    """Every batch is waited for."""
    return training(point, [dense(16)], lambda: time.sleep(SLEEP_S))


def hungry_input(point: Point) -> Training:
    """Every batch is calculated in Python, slowly."""
    return training(point, [dense(16)], lambda: sum(range(2_500_000)))


def looping_input(point: Point) -> Training:
    """Every batch is added up by Python's own instructions, between which the interpreter's lock changes hands."""
    return training(point, [dense(16)], lambda: add_up(LOOP))


def looping_workers(point: Point) -> Training:
    """The same on a thread of its own, some batches ahead: the step waits for the interpreter more than for a batch."""
    return training(point, [dense(16)] * 60, examples=Looping(point))


class Looping:
    """Examples that are added up one by one."""

    def __init__(self, point: Point) -> None:
        import numpy as np

        self._x = point.rng().standard_normal((STEPS * BATCH, INPUTS), np.float32)

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> Batch:
        add_up(LOOP // BATCH)
        return self._x[index], self._x[index, :1]


def add_up(turns: int) -> int:
    total = 0
    for number in range(turns):
        total += number * number
    return total


def tiny_operations(point: Point) -> Training:
    """Hundreds of layers of next to nothing."""
    return training(point, [dense(4)] * 250)


def large_products(point: Point) -> Training:
    return training(point, [dense(2048)] * 4)


def dense(units: int) -> Callable[[], Any]:
    def make() -> Any:
        import keras

        return keras.layers.Dense(units, activation="tanh")

    return make


def training(
    point: Point,
    layers: list[Callable[[], Any]],
    each_batch: Callable[[], object] = lambda: None,
    examples: Looping | None = None,
) -> Training:
    use_backend(point)
    import keras
    import numpy as np

    rng = point.rng()
    x, y = rng.standard_normal((BATCH, INPUTS), np.float32), rng.standard_normal((BATCH, 1), np.float32)

    def batches() -> Iterator[Batch]:
        while True:
            each_batch()
            yield x, y

    def data() -> Any:
        if examples is not None:
            return feed(point, examples, batch=BATCH, epochs=1).data
        if point.backend != "tensorflow":
            return batches()
        import tensorflow as tf

        shapes = (tf.TensorSpec((BATCH, INPUTS)), tf.TensorSpec((BATCH, 1)))
        return tf.data.Dataset.from_generator(batches, output_signature=shapes)

    model = keras.Sequential([keras.Input((INPUTS,)), *(make() for make in layers), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False if point.backend == "tensorflow" else "auto")

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        history = model.fit(data(), steps_per_epoch=STEPS, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
        return {name: [float(value) for value in values] for name, values in history.history.items()}

    def evaluate() -> dict[str, Metric]:
        return {}

    def verify(history: Mapping[str, list[float]], qualities: Mapping[str, Metric]) -> Verification:
        return Verification(passed=True, method="none: only what it waits for is looked at")

    return Training(fit, evaluate, verify, Work(flops=1, items=BATCH), Data("drawn", BATCH, 0, synthetic=True), model)


WORKLOADS = {
    "slow-input": slow_input,
    "hungry-input": hungry_input,
    "looping-input": looping_input,
    "looping-workers": looping_workers,
    "tiny-operations": tiny_operations,
    "large-products": large_products,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
