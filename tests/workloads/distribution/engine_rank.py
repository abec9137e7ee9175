"""One rank of a training run on any backend: reads a job as JSON, and prints the results as the last line."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.ranks.world import PROGRESS, World, join, world
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.data_parallel import DataParallel
from accelbench.workloads.language.sizes import SIZES

FEW_BLOCKS = replace(SIZES["tiny"], blocks=2)
"""Model of `language`: further blocks add seconds of compilation, and no coverage."""


def main() -> None:
    job = json.loads(sys.argv[1])
    join(World(**job["world"]))
    what = {"learn": learn, "both": both, "language": language}[job["what"]]
    try:
        found = what(job["backend"], job["params"])
    except Skip as skip:
        found = {"skipped": str(skip)}
    print(json.dumps(found), flush=True)


def prepared(name: str, backend: str, params: dict[str, Any]) -> Training:
    """Return the prepared benchmark at these values."""
    benchmark = discover()[name]
    values = {axis: values[0] for axis, values in benchmark.axes_on("cpu").items()} | params
    task = benchmark.prepare(Point(name, "cpu", values, backend, seed=1))
    assert isinstance(task, Training)
    return task


def metrics(task: Training) -> dict[str, float]:
    return {name: metric.value for name, metric in task.evaluate().items()}


def learn(backend: str, params: dict[str, Any]) -> dict[str, Any]:
    """Train; exchange without training; train without exchange in rank 0 only, which must not wait for other ranks."""
    task = prepared("learn", backend, params)
    found: dict[str, Any] = {"history": task.fit([]), "steps": PROGRESS.steps, "stage": PROGRESS.stage}
    found["metrics"] = metrics(task)
    if task.exchange:
        found["bytes"] = task.exchange.bytes
        for _ in range(3):
            task.exchange.exchange_isolated()
        found["metrics_exchanged"] = metrics(task)
        if world().rank == 0:
            task.exchange.train_isolated([])
        found["metrics_apart"] = metrics(task)
    return found


def both(backend: str, params: dict[str, Any]) -> dict[str, Any]:
    """Train two models one after the other, because importing a framework takes longer than both."""
    found = learn(backend, params)
    DataParallel._connect = lambda self: None  # type: ignore[method-assign] # JAX connects processes only once
    return found | {"normalised": normalised(backend, params)}


def language(backend: str, params: dict[str, Any]) -> dict[str, Any]:
    """Train a tiny language model for a few steps; return losses, statistics of the weights, and quality."""
    import numpy as np

    SIZES["tiny"] = FEW_BLOCKS
    few: dict[str, Any] = {"steps": 4, "epochs": 3, "batch": 8, "sequence": 32}
    if backend == "tensorflow":
        few["jit_compile"] = "off"  # as with several replicas
    task = prepared("transformer", backend, few | params)
    assert task.layout
    found = {"history": task.fit([]), "layout": vars(task.layout), "predicted": metrics(task)}
    weights = np.concatenate([whole(part.value).ravel() for part in task.model.trainable_variables]).astype("float64")
    drawn = np.random.default_rng(8).normal(size=weights.size)
    found["weights"] = [weights.sum(), np.linalg.norm(weights), weights @ drawn]
    found["optimizer_bytes"] = sum(here(each.value) for each in task.model.optimizer.variables)
    return found


def whole(value: Any) -> Any:
    """Return the complete array, of which the ranks may hold parts."""
    import numpy as np
    from keras import ops

    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    elif not getattr(value, "is_fully_addressable", True):
        from jax.experimental.multihost_utils import process_allgather

        return np.asarray(process_allgather(value, tiled=True))
    return ops.convert_to_numpy(value)


def here(value: Any) -> int:
    """Return the bytes of this rank's part of an array."""
    if hasattr(value, "addressable_shards"):
        return sum(shard.data.nbytes for shard in value.addressable_shards)
    local = value.to_local() if hasattr(value, "to_local") else value
    return int(getattr(local, "nbytes", 0))


def normalised(backend: str, params: dict[str, Any]) -> dict[str, Any]:
    """Train a network with batch normalisation, which has state without gradients; return weights and predictions."""
    from accelbench.workloads.training.keras_model import use_backend

    point = Point("some", "cpu", {"batch": 8, "epochs": 2} | params, backend, seed=1)
    strategy = use_backend(point)
    import keras
    import numpy as np
    from keras import layers

    from accelbench.workloads.data.pipeline import feed

    x = np.random.default_rng(3).normal(size=(35, 8)).astype("float32")
    y = x.mean(axis=1, keepdims=True)
    batches = feed(point, (x, y), batch=strategy.batch, epochs=2, share=strategy.share)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((8,)),
                layers.BatchNormalization(),
                layers.Dropout(params.get("drop", 0) / 100),
                layers.Dense(1),
            ]
        )
        model.compile(keras.optimizers.SGD(0.05), "mse")
    history = strategy.train(model, batches, 2, [])
    predicted = strategy.predict(model, x, batch_size=8)
    given = strategy.predict(model, ((x[begin : begin + 7], None) for begin in range(0, 35, 7)), steps=3)
    return {
        "history": history,
        "weights": [float(value) for part in model.get_weights() for value in part.ravel()],
        "predicted": predicted.ravel().tolist(),
        "predicted_of_generator": given.ravel().tolist(),
    }


if __name__ == "__main__":
    main()
