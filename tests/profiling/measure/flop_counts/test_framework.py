"""Each framework's own count of a model's operations stands beside ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

COUNT = """
import json, keras
from keras import layers
from accelbench.profiling.records.work import Work
from accelbench.profiling.measure.flop_counts.layers import model_flops
from accelbench.profiling.measure.flop_counts.framework import framework_metrics
images = keras.Input((20, 20, 3))
convolved = layers.Flatten()(layers.Conv2D(8, 3, strides=2, activation="relu")(images))
network = keras.Model(images, layers.Dense(10, activation="softmax")(convolved))
sequences = keras.Sequential([keras.Input((16, 9)), layers.Bidirectional(layers.LSTM(32)), layers.Dense(6)])
print(json.dumps([
    {name: metric.value for name, metric in framework_metrics(model, Work(flops, items=9), batch=4).items()}
    for model in (network, sequences)
    for flops in [model_flops(model, 4).training]
]))
"""


@pytest.mark.parametrize(
    ("backend", "network", "sequences"),
    [
        ("tensorflow", (1.0, 1.7), (0.0, 0.2)),  # its gradient of a convolution counts more; a loop's body counts once
        ("jax", (1.0, 1.1), (0.0, 0.2)),
        pytest.param("torch", (1.0, 1.0), (0.99, 1.01), marks=pytest.mark.needs("torch")),
    ],
)
def test_the_frameworks_count_agrees_where_it_can(
    backend: str, network: tuple[float, float], sequences: tuple[float, float]
) -> None:
    environment = os.environ | {"KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1"}
    process = subprocess.run(
        [sys.executable, "-c", COUNT], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    for found, (low, high) in zip(json.loads(process.stdout.splitlines()[-1]), (network, sequences), strict=True):
        assert low <= found["framework_flops_ratio"] <= high
        assert found["framework_flops"] > 0
        assert "device_memory_peak" not in found, "a CPU has no device memory"
