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

STEPS, INPUTS = 60, 64
SLEEP_S = 0.03

Batch = tuple[Any, Any]


def main(name: str, backend: str) -> None:
    point = Point(name, "cpu", {"batch": 32}, backend, seed=1)
    benchmark = Benchmark(name, WORKLOADS[name], ("cpu",), {"batch": (32,)}, figure="items", backends=(backend,))
    record = measure(benchmark, point, collect(), max_seconds=1)
    assert record.profile is not None, record.reason
    print(record.profile.bottleneck.model_dump_json())


def slow_input(point: Point) -> Training:
    """Every batch is waited for."""
    return training(point, [dense(16)], lambda: time.sleep(SLEEP_S))


def hungry_input(point: Point) -> Training:
    """Every batch is calculated in Python, slowly."""
    return training(point, [dense(16)], lambda: sum(range(2_500_000)))


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
    point: Point, layers: list[Callable[[], Any]], each_batch: Callable[[], object] = lambda: None
) -> Training:
    use_backend(point)
    import keras
    import numpy as np

    rng = point.rng()
    x, y = rng.standard_normal((32, INPUTS), np.float32), rng.standard_normal((32, 1), np.float32)

    def batches() -> Iterator[Batch]:
        while True:
            each_batch()
            yield x, y

    def data() -> Any:
        if point.backend != "tensorflow":
            return batches()
        import tensorflow as tf

        shapes = (tf.TensorSpec((32, INPUTS)), tf.TensorSpec((32, 1)))
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

    return Training(fit, evaluate, verify, Work(flops=1, items=32), Data("drawn", 32, 0, synthetic=True), model)


WORKLOADS = {
    "slow-input": slow_input,
    "hungry-input": hungry_input,
    "tiny-operations": tiny_operations,
    "large-products": large_products,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
