"""Every workload trains alike on TensorFlow, JAX and PyTorch: from the same weights, on the same data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

STEPS = 4

TRAIN = """
import json, sys
from accelbench.run.plan import discover
from profiling.records.point import Point
name, backend, params = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
benchmark = discover()[name]
params = {axis: values[0] for axis, values in benchmark.axes_on("cpu").items()} | params
from workloads.training.keras_model import use_backend
point = Point(name, "cpu", params, backend, seed=3)
use_backend(point)
import keras
# What is dropped is drawn by the framework's own generator: without it nothing else differs.
dropout = keras.layers.Dropout
keras.layers.Dropout = lambda rate: dropout(0.0)
task = benchmark.prepare(point)
class Enough(Exception):
    pass
losses = []
def seen(step, logs):
    losses.append(logs["loss"])
    if len(losses) == int(sys.argv[4]):
        raise Enough
try:
    task.fit([keras.callbacks.LambdaCallback(on_train_batch_end=seen)])
except Enough:
    pass
print(json.dumps({"losses": losses, "parameters": task.model.count_params(), "flops": task.work.flops}))
"""

TOLERANCE = {"resnet50": 0.02, "paradnn-cnn": 0.01}
"""Relative. Batch normalisation over few tiny images magnifies rounding."""


def train(name: str, backend: str, params: dict[str, Any], data: Path) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-c", TRAIN, name, backend, json.dumps(params), str(STEPS)],
        cwd=ROOT,
        env=os.environ | {"ACCELBENCH_DATA": str(data)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """What TensorFlow makes of a workload, trained once."""
    found: dict[str, dict[str, Any]] = {}

    def trained(name: str, params: dict[str, Any]) -> dict[str, Any]:
        if name not in found:
            found[name] = train(name, "tensorflow", params, tmp_path_factory.mktemp("data"))
        return found[name]

    return trained


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "backend",
    ["jax", pytest.param("torch", marks=pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch here"))],
)
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("cnn-mnist", {"batch": 16}),
        ("bilstm-har", {"batch": 16, "units": 8, "layers": 1}),
        ("bilstm-imdb", {"batch": 16, "units": 8, "length": 20}),
        ("bigru-imdb", {"batch": 16, "units": 8, "length": 20}),
        ("deep-mnist-embryo", {"batch": 8, "image": 16}),
        ("resnet50", {"batch": 4, "image": 32}),
        ("paradnn-fc", {"layers": 3, "nodes": 32, "inputs": 100, "outputs": 100, "batch": 16}),
        ("paradnn-cnn", {"filters": 8, "image": 32, "outputs": 100, "batch": 16}),
        ("paradnn-rnn", {"cell": "rnn", "units": 32, "length": 8, "vocabulary": 100, "batch": 32}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_same_steps_lose_alike_on_every_backend(
    reference: Callable[[str, dict[str, Any]], dict[str, Any]],
    name: str,
    params: dict[str, Any],
    backend: str,
    tmp_path: Path,
) -> None:
    expected, found = reference(name, params), train(name, backend, params, tmp_path)
    assert len(set(expected["losses"])) == len(expected["losses"]) == STEPS
    assert found["losses"] == pytest.approx(expected["losses"], rel=TOLERANCE.get(name, 1e-3))
    assert found["parameters"] == expected["parameters"]
    assert found["flops"] == expected["flops"]
