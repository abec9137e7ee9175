"""The FLOP counts of each framework, compared with those from the layers."""

from __future__ import annotations

import pytest

from tests.fixtures.warm import Forked, result

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
        ("tensorflow", (1.0, 1.7), (0.0, 0.2)),  # counts more for the gradient of a convolution, and a loop body once
        ("jax", (1.0, 1.1), (0.0, 0.2)),
        pytest.param("torch", (1.0, 1.0), (0.99, 1.01), marks=pytest.mark.needs("torch")),
    ],
)
def test_the_counts_of_the_frameworks_are_in_the_expected_range(
    backend: str, network: tuple[float, float], sequences: tuple[float, float]
) -> None:
    for found, (low, high) in zip(result(Forked(backend, COUNT)), (network, sequences), strict=True):
        assert low <= found["framework_flops_ratio"] <= high
        assert found["framework_flops"] > 0
        assert "device_memory_peak" not in found


UNKNOWN = """
import json, keras
from keras import layers
from jax.stages import Lowered
from accelbench.profiling.records.work import Work
from accelbench.profiling.measure.flop_counts.framework import framework_metrics

def analysis(lowered):
    if RAISES:
        raise NotImplementedError("no lowering for cpu")

Lowered.cost_analysis = analysis
network = keras.Sequential([keras.Input((9,)), layers.Dense(6)])
print(json.dumps(sorted(framework_metrics(network, Work(1.0, items=9), batch=4))))
"""


@pytest.mark.parametrize("raises", [True, False])
def test_without_xlas_analysis_the_metrics_are_missing_and_nothing_fails(raises: bool) -> None:
    """On a GPU, JAX returns no analysis of lowered functions, and operations of cuDNN cannot be lowered for a CPU."""
    assert result(Forked("jax", UNKNOWN.replace("RAISES", str(raises)))) == []
