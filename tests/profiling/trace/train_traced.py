"""Train small models under the profiler, in a process of its own: `train_traced.py BACKEND FOLDER`.

Prints the outcomes as JSON, by the name of what is done.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BACKEND, FOLDER = sys.argv[1], Path(sys.argv[2])
os.environ.update(
    KERAS_BACKEND=BACKEND, CUDA_VISIBLE_DEVICES="-1", JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="2", TQDM_DISABLE="1"
)

import keras  # noqa: E402 - the backend is chosen before
import numpy as np  # noqa: E402

from profiling.trace.capture import Capture, TraceWindow, capture  # noqa: E402
from profiling.training import StepClock  # noqa: E402

BATCH, FIRST, STEPS = 64, 6, 8
WAIT_S = 0.03


def model(width: int, layers: int) -> Any:
    net = keras.Sequential([keras.Input((width,)), *(keras.layers.Dense(width, "relu") for _ in range(layers))])
    net.compile("sgd", "mse")
    return net


def batches(width: int, wait_s: float = 0.0) -> Iterator[tuple[Any, Any]]:
    x = np.random.default_rng(1).normal(size=(BATCH, width)).astype("float32")
    while True:
        time.sleep(wait_s)
        yield x, x


def train(name: str, net: Any, feed: Iterator[tuple[Any, Any]], steps: int, backend: str = BACKEND) -> Capture:
    clock = StepClock()
    with TraceWindow(FOLDER / name, backend, FIRST, STEPS) as window:
        net.fit(feed, steps_per_epoch=steps, verbose=0, callbacks=[clock.callback(), window.callback()])
    assert len(clock.epochs[0].ends) == steps, "the training did not survive"
    return window.outcome()


def train_to_an_error() -> Capture:
    class Failing(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            if batch == FIRST + 3:
                raise ArithmeticError

    with TraceWindow(FOLDER / "failing", BACKEND, FIRST, STEPS) as window:
        try:
            small.fit(batches(16), steps_per_epoch=20, verbose=0, callbacks=[Failing(), window.callback()])
        except ArithmeticError:
            pass
        else:
            raise AssertionError("the error was swallowed")
    return window.outcome()


def train_on_a_full_disk() -> Capture:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        return train("full", small, batches(16), 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def capture_a_product() -> Capture:
    a = np.ones((300, 300), "float32")
    with capture(FOLDER / "plain", BACKEND) as outcome:
        keras.ops.convert_to_numpy(keras.ops.matmul(a, a))
    return outcome()


small = model(16, 1)
(FOLDER / "taken").write_text("a file where the folder should be")
outcomes = {
    "slow input": train("slow input", small, batches(16, WAIT_S), 20),
    "big products": train("big products", model(1024, 4), batches(1024), 16),
    "small": train("small", small, batches(16), 20),
    "short": train("short", small, batches(16), FIRST + 2),
    "single step": train("single", small, batches(16), 1),
    "full": train_on_a_full_disk(),
    "taken": train("taken", small, batches(16), 20),
    "torch": train("torch", small, batches(16), 20, backend="torch"),
    "failing": train_to_an_error(),
    "after a failure": train("after", small, batches(16), 20),
    "plain": capture_a_product(),
}
print(json.dumps({name: outcome.model_dump() for name, outcome in outcomes.items()}))
