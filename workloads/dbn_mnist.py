"""Classification of handwritten digits by a deep belief network.

Its layers are first trained one after the other, without labels, as restricted Boltzmann machines; then a softmax
layer is put on top and the whole stack is trained with labels. The experiment is one of "Performance of Parallel
Computing in Training Deep Learning Models", Modern Information Technologies and IT-Education (2021); the method is from
G. E. Hinton, S. Osindero and Y.-W. Teh, "A Fast Learning Algorithm for Deep Belief Nets", Neural Computation 18 (2006).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PIXELS, CLASSES = 28 * 28, 10
BATCH = 50
LEARNING_RATE, MOMENTUM = 0.1, 0.5
"""The settings of contrastive divergence (Hinton's practical guide, sections 7 and 9)."""
WIDE = 500
"""Units from which on the learning rate falls: a visible unit sums over all hidden ones, and at 2,000 units the full
rate was seen to unlearn what the first steps had learned."""


LEAST_STEPS = 150
"""The fewest steps of pre-training and of fine-tuning, of 50 images or more (smaller are added up): three layers begin
to tell digits apart after some hundred."""
FLOORS = ((WIDE, 790, 0.93, 0.5), (0, 0, 0.5, 0.8))
"""Units, steps, and what a trained network of at least that many then keeps to: the least held-out accuracy, and the
most of the first machine's reconstruction error before.

Measured on the 5,000 digits, with 1 to 3 layers: 0.950 to 0.962 and 0.24 with 500 units after 900 steps, where the same
networks reach 0.934 to 0.944 without pre-training; 0.67 and 0.59 or better with 64 to 2,000 units after 160. Chance is
an accuracy of 0.1.
"""


@training(
    "dbn-mnist",
    axes={
        "layers": (2,),
        "units": (500,),
        "k": (1,),
        "batch": (BATCH,),
        "pretraining_epochs": (10,),
        "epochs": (10,),
    },
    limits={"layers": (1, 3), "units": (64, 16384), "k": (1, 100)},
    time_limit_s=3600,
)
def dbn_mnist(point: Point, strategy: Strategy) -> Training:
    """Train a deep belief network on real digits: Boltzmann machines first, then the whole stack with labels.

    The steps that are timed are the contrastive divergence of the first machine, the work that no other experiment
    has; the pre-training of each layer and the fine-tuning are phases, timed as a whole, among the metrics.
    """
    import keras
    import numpy as np
    from keras import layers
    from scipy.special import expit

    from accelbench.profiling.machine.free_memory import require_memory
    from accelbench.profiling.timing.steps import StepClock
    from accelbench.workloads.data import load_mnist
    from accelbench.workloads.data.pipeline import feed
    from accelbench.workloads.training.experiment import experiment
    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.training.quality import CLASSIFIER, classification
    from accelbench.workloads.training.rbm import rbm

    digits = load_mnist()
    x_train, x_test = (x.reshape(-1, PIXELS).astype("float32") / 255 for x in (digits.x_train, digits.x_test))
    units, batch, depth = point["units"], point["batch"], point["layers"]
    labelled = strategy.feed((x_train, digits.y_train))
    steps_done = min(point["pretraining_epochs"], point["epochs"]) * len(x_train) // max(batch, BATCH)
    if steps_done < LEAST_STEPS:
        raise Skip(
            f"{steps_done} steps are too few to tell a trained network from an untrained one: take more epochs of "
            f"both kinds or a smaller batch, for {LEAST_STEPS} steps of {BATCH} images or more"
        )
    if point.device == "cpu":
        require_memory(memory_bytes(depth, units, batch, len(x_train)))

    def machine_on(visible: NDArray[np.floating[Any]], layer: int) -> Any:
        machine = rbm(visible.shape[1], units, k=point["k"], seed=point.seed + layer)
        # Log-odds of being on: else the hidden units would first learn what is black in every image (section 8.1).
        on = np.clip(visible.mean(axis=0), 1e-3, 1 - 1e-3)
        machine.visible_bias.assign(np.log(on / (1 - on)))
        machine.compile(
            optimizer=keras.optimizers.SGD(LEARNING_RATE * min(1, WIDE / units), MOMENTUM),
            jit_compile=jit_compile(point),
        )
        return machine

    first = machine_on(x_train, 0)
    network = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            *(layers.Dense(units, activation="sigmoid") for _ in range(depth)),
            layers.Dense(CLASSES, activation="softmax", dtype="float32"),
        ]
    )
    network.compile(
        optimizer=keras.optimizers.Adam(),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=jit_compile(point),
    )
    seconds: dict[str, float] = {}
    error_before = math.nan

    def reconstruction_error() -> float:
        """Return the first machine's error per pixel of the held-out images."""
        return float(first.evaluate(x_test, batch_size=batch, verbose=0, return_dict=True)["reconstruction_error"])

    def pretrain(callbacks: list[Any]) -> list[float]:
        """Train every layer as a machine whose visible units are the layer below; return the errors of the first."""
        errors, visible = [], x_train
        for layer in range(depth):
            begin = perf_counter()
            machine = machine_on(visible, layer) if layer else first
            batches = feed(point, (visible, visible), batch=batch, epochs=point["pretraining_epochs"])
            history = strategy.train(machine, batches, point["pretraining_epochs"], [] if layer else callbacks)
            errors.append(history["reconstruction_error"])
            network.layers[layer].set_weights([machine.kernel.numpy(), machine.hidden_bias.numpy()])
            visible = expit(machine.predict(visible, batch_size=batch, verbose=0))
            seconds[f"pretraining_layer_{layer + 1}"] = perf_counter() - begin
        return errors[0]

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        nonlocal error_before
        error_before = reconstruction_error()
        errors = pretrain(callbacks)
        clock = StepClock()
        begin = perf_counter()
        tuned = strategy.train(network, labelled, point["epochs"], [clock.callback()])
        seconds["fine_tuning"] = perf_counter() - begin
        epochs = [epoch.seconds for epoch in clock.epochs]
        seconds["fine_tuning_epoch"] = float(np.median(epochs[1:] or epochs))
        seconds["fine_tuning_step"] = float(np.median(clock.samples() or [math.nan]))
        return {
            "reconstruction_error": errors,
            "fine_tuning_loss": tuned["loss"],
            "fine_tuning_accuracy": tuned["accuracy"],
        }

    def evaluate() -> dict[str, Metric]:
        probabilities = network.predict(x_test, batch_size=batch, verbose=0)
        return (
            classification(digits.y_test, probabilities)
            | {
                "reconstruction_error": Metric(reconstruction_error()),
                "untrained_reconstruction_error": Metric(error_before),
                "network_parameters": Metric(network.count_params()),
            }
            | {phase: Metric(taken, "s") for phase, taken in seconds.items()}
        )

    def verify(history: Mapping[str, list[float]], metrics: dict[str, Metric]) -> Verification:
        return check(depth, units, steps_done, digits.source, history, metrics)

    # Products of the size batch × visible × hidden: the hidden units of the data, in each of the k Gibbs steps the
    # visible units and then the hidden ones, and for the gradient those of the data's and of the chain's end with
    # their hidden units.
    products = 1 + 2 * point["k"] + 2
    training = experiment(
        strategy,
        first,
        labelled,
        Data(digits.source, len(x_train), len(x_test)),
        flops=2 * batch * PIXELS * units * products,
        fit=fit,
        evaluate=evaluate,
        verify=verify,
        qualities=(*CLASSIFIER, Quality("reconstruction_error", better="lower")),
        item="images",
    )
    # The layers above learn from what the first has learnt.
    return replace(training, enough_epochs=None)


def parameters(depth: int, units: int) -> int:
    """Return the number of weights, one for every pair of neighbouring units, and biases, one for every unit above."""
    return (PIXELS + 1) * units + (depth - 1) * (units + 1) * units + (units + 1) * CLASSES


def memory_bytes(depth: int, units: int, batch: int, images: int) -> int:
    """Return the memory that training takes in float32.

    It holds every weight with its gradient and Adam's two moments; the images, a layer's view of them and the next
    layer's; and of a batch some ten values per unit, drawn and summed in a chain.
    """
    return 4 * (4 * parameters(depth, units) + images * (PIXELS + 2 * units) + 10 * batch * (PIXELS + units))


def check(
    depth: int,
    units: int,
    steps: int,
    source: str,
    history: Mapping[str, Sequence[float]],
    metrics: Mapping[str, Metric],
) -> Verification:
    """Check that the network classifies, as any classifier must, and that its first machine reconstructs better."""
    from accelbench.workloads.training.quality import verify_classifier

    floor, share = next(floors for width, least, *floors in FLOORS if units >= width and steps >= least)
    classifier = verify_classifier(
        {"loss": history["fine_tuning_loss"]},
        metrics,
        parameters=int(metrics["network_parameters"].value),
        expected_parameters=parameters(depth, units),
        floor=floor,
        source=source,
    )
    most, error = share * metrics["untrained_reconstruction_error"].value, metrics["reconstruction_error"].value
    return replace(
        classifier,
        passed=classifier.passed and error <= most,  # false for NaN, too
        method=f"reconstruction error, {classifier.method}",
        expected=f"reconstruction error ≤ {most:.3g}, {classifier.expected}",
        found=f"reconstruction error {error:.3g}, {classifier.found}",
    )
