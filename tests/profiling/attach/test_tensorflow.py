"""Tests of the hooks of TensorFlow and Keras optimizers: each idiom of a training loop, observed in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from accelbench.profiling.attach.launches import SAMPLES
from tests.conftest import environment

pytestmark = [pytest.mark.slow, pytest.mark.needs("tensorflow")]

OBSERVED = """
import json, sys
from pathlib import Path
import keras, tensorflow as tf
from keras.src.optimizers.base_optimizer import BaseOptimizer
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.eager.backprop import GradientTape
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from accelbench.profiling.attach import keras as keras_hooks, tensorflow as tensorflow_hooks
from accelbench.profiling.attach.imports import ImportWatch
from accelbench.profiling.attach.session import Session
from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder

PLACES = [(OwnedIterator, "__next__"), (GradientTape, "gradient"), (Function, "__call__"), (BaseOptimizer, "apply")]
BEFORE = [getattr(*place) for place in PLACES]
STEPS = 4


def new_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return model, keras.optimizers.SGD(0.01)


def batches():
    return tf.data.Dataset.from_tensor_slices(tf.ones((STEPS * 8, 3))).batch(8)


def train_step(model, optimizer, forward):
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward(batch) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    return step


def compiled():
    model, optimizer = new_model()
    step = tf.function(train_step(model, optimizer, tf.function(model)))
    for batch in batches():
        step(batch)


def method():
    class Trainer:
        def __init__(self):
            self.model, self.optimizer = new_model()

        @tf.function
        def step(self, batch):
            return train_step(self.model, self.optimizer, self.model)(batch)

    trainer = Trainer()
    for batch in batches():
        trainer.step(batch)


def eager():
    model, optimizer = new_model()
    for batch in batches():
        train_step(model, optimizer, model)(batch)


def gan():
    first, second = tf.Variable(tf.ones((3, 2))), {"w": tf.Variable(tf.ones((3, 2)))}
    for batch in batches():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((batch @ first) ** 2)
        first.assign_sub(0.01 * tape.gradient(loss, [first])[0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((batch @ second["w"]) ** 2)
        second["w"].assign_sub(0.01 * tape.gradient(target=loss, sources=second)["w"])


def compiled_gradients():
    model, optimizer = new_model()

    @tf.function
    def gradients(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    for batch in batches():
        optimizer.apply_gradients(zip(gradients(batch), model.trainable_variables))


def train_on_batch():
    model, optimizer = new_model()
    model.compile(optimizer, "mse")
    for batch in batches():
        model.train_on_batch(batch, tf.ones((8, 2)))


def fit():
    model, optimizer = new_model()
    model.compile(optimizer, "mse")
    model.fit(batches().map(lambda batch: (batch, tf.ones((8, 2)))), verbose=0)


def strategy():
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with two.scope():
        model, optimizer = new_model()
        optimizer.build(model.trainable_variables)
    step = tf.function(lambda batch: two.run(train_step(model, optimizer, model), (batch,)))
    for batch in batches():
        step(batch)


def without_training():
    evaluate = tf.function(lambda batch: tf.reduce_sum(batch))
    for batch in batches():
        evaluate(batch)


def rows_of_different_lengths():
    rows = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1.0], [2.0, 3.0]] * STEPS)).batch(2)
    step = tf.function(differentiated)
    for batch in rows:
        step(batch)


def differentiated(batch):
    variable = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        loss = variable * tf.reduce_sum(batch)
    return tape.gradient(loss, variable)


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
found = {}
for loop in (compiled, method, eager, gan, compiled_gradients, train_on_batch, fit, strategy, without_training,
             rows_of_different_lengths):
    with exchange_folder() as folder:
        session = Session(str(folder))
        ImportWatch({**tensorflow_hooks.hooks(session), **keras_hooks.hooks(session)})
        session._execute("count")
        loop()
        session.synchronize()
        session.flush()
        session.detach()
        events = ScriptEvents(folder)
        events.read()
    found[loop.__name__] = [events.source, len(events.steps), [step.examples for step in events.steps], events.loader,
                            events.error, BEFORE == [getattr(*place) for place in PLACES], events.flops]

TABLE = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, 1)
EFFECTS = {
    "none": lambda batch: batch,
    "print": lambda batch: (batch, tf.print(batch[0, 0], output_stream="file:///dev/null"))[0],
    "random": lambda batch: batch + tf.random.uniform(()),
    "table": lambda batch: batch + tf.cast(TABLE.lookup(tf.constant(1)), tf.float32),
}


def trained(session, effect):
    weights = tf.Variable(tf.ones((3, 2)))

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((effect(batch) @ weights) ** 2)
        weights.assign_sub(0.001 * tape.gradient(loss, weights))

    step(tf.ones((8, 3)))
    session._execute("launches")
    for _ in range(6):
        step(tf.ones((8, 3)))
    return weights.numpy().tolist()


launched = {}
for name, effect in EFFECTS.items():
    with exchange_folder() as folder:
        session = Session(str(folder))
        ImportWatch({**tensorflow_hooks.hooks(session), **keras_hooks.hooks(session)})
        weights = trained(session, effect)
        session.flush()
        session.detach()
        plain = trained(session, effect)
        events = ScriptEvents(folder)
        events.read()
    launched[name] = [*events.launches, name == "random" or weights == plain]
found["launched"] = launched
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("observed")
    words = [sys.executable, "-c", OBSERVED]
    process = subprocess.run(
        words, cwd=folder, env=environment(KERAS_BACKEND="tensorflow"), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("loop", "source", "examples"),
    [
        ("compiled", "tf.function calls", 8),
        ("method", "tf.function calls", 8),
        ("eager", "optimizer steps", 8),
        ("gan", "gradients", 8),
        ("compiled_gradients", "optimizer steps", 8),
        ("train_on_batch", "tf.function calls", 8),
        ("fit", "fit", 0),
        ("strategy", "tf.function calls", 8),
        ("rows_of_different_lengths", "tf.function calls", 2),
    ],
)
def test_each_idiom_has_its_steps(observed: dict[str, Any], loop: str, source: str, examples: int) -> None:
    found_source, steps, found_examples, loader, error, restored, _ = observed[loop]
    assert (found_source, steps, error) == (source, 3, None)
    assert found_examples == [examples] * 3
    assert loader == (None if loop == "fit" else "OwnedIterator")
    assert restored


def test_a_compiled_function_without_gradients_is_no_step(observed: dict[str, Any]) -> None:
    source, _, _, _, error, restored, _ = observed["without_training"]
    assert (source, error, restored) == (None, None, True)


PRODUCTS = 2 * 2 * 8 * 3 * 2
"""FLOPs of the products of a step: forward, and the gradient of the weights."""


@pytest.mark.parametrize("loop", ["compiled", "method", "train_on_batch", "strategy"])
def test_flops_of_compiled_functions_are_counted(observed: dict[str, Any], loop: str) -> None:
    flops, reason = observed[loop][-1]
    assert reason is None
    assert 1 <= flops["float32"] / PRODUCTS < 4  # small operations count


def test_flops_of_eager_operations_and_of_unknown_batches_are_not_counted(observed: dict[str, Any]) -> None:
    assert not observed["eager"][-1][0]
    assert all(observed[loop][-1][1] for loop in ("eager", "fit"))


def test_a_loop_of_many_calls_restores_the_variables(observed: dict[str, Any]) -> None:
    seconds, refused, same = observed["launched"]["none"]
    assert (len(seconds), refused, same) == (SAMPLES, None, True)


@pytest.mark.parametrize("effect", ["print", "random", "table"])
def test_functions_with_effects_are_not_called_in_a_loop(observed: dict[str, Any], effect: str) -> None:
    seconds, refused, same = observed["launched"][effect]
    assert (seconds, bool(refused), same) == ([], True, True)
