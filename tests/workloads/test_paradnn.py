"""The families have the described parameters, learn, and fail verification if they do not."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelbench.profiling.benchmark import REGISTRY, Skip, Training
from accelbench.profiling.machine import free_memory as memory
from accelbench.profiling.measure.flop_counts.framework import framework_metrics
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.paradnn import (
    HELD_OUT,
    STEPS,
    cnn_parameters,
    fc_parameters,
    paradnn_cnn,
    paradnn_fc,
    paradnn_rnn,
    rnn_parameters,
)
from tests.requirements import ANY_BACKEND

PREPARE = {"paradnn-fc": paradnn_fc, "paradnn-cnn": paradnn_cnn, "paradnn-rnn": paradnn_rnn}
SMALL: dict[str, dict[str, Any]] = {
    "paradnn-fc": {"layers": 3, "nodes": 32, "inputs": 2000, "outputs": 100, "batch": 16},
    "paradnn-cnn": {"block": "residual", "blocks": 1, "filters": 8, "image": 32, "outputs": 100, "batch": 16},
    "paradnn-rnn": {"cell": "rnn", "layers": 1, "units": 32, "length": 50, "vocabulary": 100, "batch": 32},
}
NAMES = list(SMALL)
few_examples = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def prepare(name: str, seed: int = 5, **params: int | str) -> Training:
    # XLA would take longer to compile than these short runs last.
    chosen = SMALL[name] | {"epochs": 3, "jit_compile": "off"} | params
    task = PREPARE[name](Point(name, "cpu", chosen, ANY_BACKEND, seed=seed))
    assert isinstance(task, Training)
    return task


@pytest.mark.slow
@few_examples
@given(layers=st.integers(1, 6), nodes=st.integers(32, 50), inputs=st.integers(100, 150), outputs=st.integers(100, 150))
def test_fully_connected_layers_have_the_parameters_of_the_formula(
    layers: int, nodes: int, inputs: int, outputs: int
) -> None:
    task = prepare("paradnn-fc", layers=layers, nodes=nodes, inputs=inputs, outputs=outputs)
    assert task.model.count_params() == fc_parameters(layers, nodes, inputs, outputs)


@pytest.mark.slow
@few_examples
@given(
    block=st.sampled_from(["residual", "bottleneck"]),
    blocks=st.integers(1, 3),
    filters=st.integers(8, 12),
    outputs=st.integers(100, 150),
)
def test_residual_networks_have_the_parameters_of_the_formula(
    block: str, blocks: int, filters: int, outputs: int
) -> None:
    task = prepare("paradnn-cnn", block=block, blocks=blocks, filters=filters, outputs=outputs)
    assert task.model.count_params() == cnn_parameters(block, blocks, filters, outputs)


@few_examples
@given(
    cell=st.sampled_from(["rnn", "lstm", "gru"]),
    layers=st.integers(1, 4),
    units=st.integers(32, 50),
    vocabulary=st.integers(100, 150),
)
def test_recurrent_layers_have_the_parameters_of_the_formula(
    cell: str, layers: int, units: int, vocabulary: int
) -> None:
    task = prepare("paradnn-rnn", cell=cell, layers=layers, units=units, vocabulary=vocabulary)
    assert task.model.count_params() == rnn_parameters(cell, layers, units, vocabulary)


def test_two_residual_blocks_of_64_filters_are_the_published_resnet_18() -> None:
    model = prepare("paradnn-cnn", blocks=2, filters=64, outputs=1000).model
    trainable = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    # He et al.'s ResNet-18 has 11,689,512 trainable parameters; its first group has no projection shortcut.
    assert trainable == 11_689_512 + 64 * 64 + 2 * 64


def test_work_per_step_agrees_with_a_hand_count() -> None:
    fc = prepare("paradnn-fc").work
    layers = [2000 * 32, 32 * 32, 32 * 32, 32 * 100]
    assert fc.flops == 2 * 16 * (3 * sum(layers) - layers[0])
    assert (fc.items, fc.item) == (16, "examples")
    rnn = prepare("paradnn-rnn").work
    # Per word: input and state times units, forward and twice backward, except for the constant initial state.
    assert rnn.flops == 2 * 32 * (3 * 50 * (32 * 32 + 32 * 32 + 32 * 100) - 32 * 32)
    assert (rnn.items, rnn.item) == (32 * 50, "words")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_frameworks_operation_count_is_similar(name: str) -> None:
    task = prepare(name)
    ratio = framework_metrics(task.model, task.work, SMALL[name]["batch"])["framework_flops_ratio"].value
    # The framework counts the body of a recurrent loop once, and element-wise operations in addition.
    assert (0.5 if name == "paradnn-rnn" else 0.95) <= ratio <= 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_few_steps_lower_the_loss_and_pass_verification(name: str) -> None:
    task = prepare(name)
    untrained = task.evaluate()
    history = task.fit([])
    qualities = task.evaluate()
    outcome = task.verify(history, qualities)
    assert outcome.passed, outcome.found
    assert history["loss"] == sorted(history["loss"], reverse=True)
    assert qualities["test_loss"].value < 0.8 * untrained["test_loss"].value
    assert task.data.synthetic
    assert "synthetic" in task.data.source
    assert (task.data.train, task.data.held_out) == (STEPS * SMALL[name]["batch"], HELD_OUT)
    assert not task.verify(history, untrained).passed, "an untrained network passes"
    assert not task.verify({"loss": [history["loss"][0], math.nan]}, qualities).passed
    assert not task.verify({"loss": [9.0, 0.8 * math.log(100)]}, qualities).passed, "a loss that hardly fell passes"
    assert not task.verify(history, qualities | {"test_accuracy": Metric(math.nan)}).passed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_model_trained_on_shuffled_labels_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Strategy.feed

    def shuffled(self: Strategy, examples: tuple[Any, Any]) -> Feed:
        x, labels = examples
        return feed(self, (x, np.random.default_rng(1).permuted(labels, axis=0)))

    monkeypatch.setattr(Strategy, "feed", shuffled)
    task = prepare(name)
    outcome = task.verify(task.fit([]), task.evaluate())
    assert not outcome.passed


@pytest.mark.slow
def test_the_papers_deepest_layers_pass_by_their_loss() -> None:
    task = prepare("paradnn-fc", layers=64, outputs=1000, epochs=3)
    outcome = task.verify(task.fit([]), task.evaluate())
    assert outcome.passed, outcome.found


@pytest.mark.parametrize(
    ("name", "params", "size"),
    [
        ("paradnn-fc", {"layers": 128, "nodes": 8192}, "95.6 GiB"),
        ("paradnn-cnn", {"image": 300, "batch": 4096, "filters": 64}, "41.3 GiB"),
        ("paradnn-rnn", {"layers": 13, "units": 900, "length": 90, "batch": 1024}, "80.7 GiB"),
    ],
    ids=NAMES,
)
def test_a_network_that_does_not_fit_in_memory_is_skipped_with_sizes(
    name: str, params: dict[str, int], size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 24 << 30)
    with pytest.raises(Skip, match=f"{re.escape(size)}.*24 GiB.*12 GiB"):
        prepare(name, **params)


def test_the_papers_ranges_are_within_the_limits() -> None:
    for name, ranges in {
        "paradnn-fc": {"layers": (4, 128), "nodes": (32, 8192), "inputs": (2000, 8000), "batch": (64, 16384)},
        "paradnn-cnn": {"blocks": (1, 8), "filters": (16, 64), "image": (200, 300), "outputs": (500, 1500)},
        "paradnn-rnn": {"layers": (1, 13), "units": (100, 900), "length": (10, 90), "batch": (16, 1024)},
    }.items():
        for axis, (least, most) in ranges.items():
            lower, upper = REGISTRY[name].limits[axis]
            assert lower <= least
            assert most <= upper
