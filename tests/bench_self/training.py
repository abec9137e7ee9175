"""Overhead of our input pipeline and step clock: training workloads compared with `model.fit` on arrays."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.steps import WARMUP_STEPS, StepClock
from accelbench.workloads.data import pipeline
from accelbench.workloads.training.keras_model import use_backend
from tests.bench_self.bounds import Bound

ROUNDS = 7
STEPS = 40
"""Maximum number of steps of an epoch; for slow models, both use a part of the data."""
WORKLOADS: dict[str, dict[str, int]] = {
    "cnn-mnist": {},
    "dbn-mnist": {"epochs": 2, "pretraining_epochs": 2},
    "bilstm-har": {},
    "bilstm-imdb": {},
    "deep-mnist-embryo": {"image": 32},
    "resnet50": {"image": 64, "epochs": 3},
    "paradnn-fc": {"epochs": 3},
    "transformer": {"epochs": 3},
}


def against_bare_fit(console: Console) -> list[Bound]:
    """Return the steady step time of each workload ÷ the step time of a bare `fit`, each workload in a new process."""
    bounds = []
    for name in WORKLOADS:
        console.print(f"{name} compared with a bare fit, {ROUNDS} repetitions")
        command = [sys.executable, "-m", "tests.bench_self.training", name]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.split()
        bounds.append(Bound(f"{name}, steady step ÷ bare fit", "×", at_most=1.03, found=list(map(float, found))))
    return bounds


def ratios(name: str) -> list[float]:
    """Return our step time ÷ the step time of a bare `fit`, from alternate epochs of the same model and data."""
    benchmark = discover()[name]
    params: dict[str, Any] = {axis: values[0] for axis, values in benchmark.axes_on("cpu").items()}
    point = Point(name, "cpu", params | {"epochs": 1} | WORKLOADS[name], "tensorflow", seed=1)
    use_backend(point)
    import keras

    given: list[tuple[Any, int]] = []
    feed = pipeline.feed

    def remember(point: Point, examples: Any, *, batch: int, passes: int = 1, **settings: Any) -> Any:
        examples = tuple(part[: STEPS * batch] for part in examples)
        given.append((examples, passes))
        return feed(point, examples, batch=batch, passes=passes, **settings)

    pipeline.feed = remember
    task = benchmark.prepare(point)
    assert isinstance(task, Training)
    (x, y), passes = given[0]
    x, y = np.concatenate([x] * passes), np.concatenate([y] * passes)
    if name == "dbn-mnist":  # its timed model reconstructs the images
        y = x

    class Times(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ends.append(perf_counter())

    found = []
    for number in range(ROUNDS + 1):
        clock, ends = StepClock(), list[float]()
        task.fit([clock.callback()])
        task.model.fit(x, y, batch_size=point["batch"], callbacks=[Times()], verbose=0)
        steps = [after - before for before, after in pairwise(ends)][WARMUP_STEPS:]
        if number:  # the first epoch compiles
            found.append(median(clock.samples()) / median(steps))
    return found


if __name__ == "__main__":
    print(*ratios(sys.argv[1]))
