"""One rank of a training run on TensorFlow: reads a job as JSON, and prints the results as the last line."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Serving, Training
from accelbench.profiling.ranks.world import PROGRESS, World, join, world
from accelbench.profiling.records.point import Point


def main() -> None:
    job = json.loads(sys.argv[1])
    join(World(**job["world"]))
    what = {"learn": learn, "learn and variants": learn_and_variants, "lost": lost}[job["what"]]
    found = what(job["params"])
    print(json.dumps(found), flush=True)


def prepared(params: dict[str, Any]) -> Training | Serving:
    """Return the prepared benchmark `learn` at these values."""
    benchmark = discover()["learn"]
    values = {axis: values[0] for axis, values in benchmark.axes_on("cpu").items()} | params
    task = benchmark.prepare(Point("learn", "cpu", values, "tensorflow", seed=1))
    assert isinstance(task, (Training, Serving))
    return task


def metrics(task: Training) -> dict[str, float]:
    return {name: metric.value for name, metric in task.evaluate().items()}


def learn(params: dict[str, Any]) -> dict[str, Any]:
    """Train and record the callbacks; exchange without training; train without exchange in rank 0 only."""
    task = prepared(params)
    if isinstance(task, Serving):
        task.serve()
        return {"served": True}
    import keras

    told: list[Any] = []
    listen = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: told.append("train"),
        on_epoch_begin=lambda epoch, logs: told.append(f"epoch {epoch}"),
        on_train_batch_begin=lambda step, logs: told.append(f"step {step}"),
        on_train_batch_end=lambda step, logs: told.append(logs["loss"]),
        on_epoch_end=lambda epoch, logs: told.append(logs),
        on_train_end=lambda logs: told.append(logs),
    )
    steps = PROGRESS.steps
    found: dict[str, Any] = {"history": task.fit([listen]), "told": told}
    found |= {"steps": PROGRESS.steps - steps, "stage": PROGRESS.stage, "metrics": metrics(task)}
    if task.exchange:
        found["bytes"] = task.exchange.bytes
        for _ in range(3):
            task.exchange.exchange_isolated()
        if world().rank == 0:
            task.exchange.train_isolated([])  # must not wait for the other rank
        found["metrics_apart"] = metrics(task)
    return found


def learn_and_variants(params: dict[str, Any]) -> dict[str, Any]:
    return learn(params) | {"variants": variants(params)}


def variants(params: dict[str, Any]) -> dict[str, Any]:
    """Train small networks that differ in one property each; return their last losses and all weights."""
    from accelbench.workloads.training.keras_model import use_backend

    point = Point("some", "cpu", {"batch": 8} | params, "tensorflow", seed=1)
    strategy = use_backend(point)
    import keras
    import numpy as np
    from keras import layers

    from accelbench.workloads.data.pipeline import feed

    x = np.random.default_rng(3).normal(size=(32, 8)).astype("float32")
    y = x.mean(axis=1, keepdims=True)
    found: dict[str, Any] = {}
    for name, middle, precision in (
        ("compiled", [], "float32"),
        ("half", [], "mixed_float16"),
        ("normalised", [layers.BatchNormalization], "float32"),
        ("dropping", [lambda: layers.Dropout(0.5)], "float32"),
    ):
        keras.config.set_dtype_policy(precision)
        batches = feed(point, (x, y), batch=strategy.batch, epochs=3, share=strategy.share)
        with strategy.scope():
            model = keras.Sequential([keras.Input((8,)), *(make() for make in middle), layers.Dense(1)])
            model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=name == "compiled")
        history = strategy.train(model, batches, 3, [])
        found[name] = {
            "loss": history["loss"][-1],
            "weights": [part.tolist() for part in model.get_weights()],
            "optimizer": type(model.optimizer).__name__,
            "random": [v.numpy().tolist() for v in model.non_trainable_variables if "seed" in v.name],
        }
    stop = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: setattr(model, "stop_training", epoch == 1))
    found["stopped"] = {"epochs": len(strategy.train(model, batches, 3, [stop])["loss"])}
    return found


def lost(params: dict[str, Any]) -> dict[str, Any]:
    """Exit in the fifth step of rank 1; rank 0 must not wait for it."""
    task = prepared(params)
    assert isinstance(task, Training)
    import keras

    def die(step: int, logs: Any) -> None:
        if step == 4 and world().rank == 1:
            os._exit(9)

    try:
        task.fit([keras.callbacks.LambdaCallback(on_train_batch_end=die)])
    except Exception as error:  # noqa: BLE001 - the exception depends on the engine
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": None}


if __name__ == "__main__":
    main()
