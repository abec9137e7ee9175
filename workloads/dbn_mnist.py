"""Handwritten digit classification with a deep belief network.

The layers are first trained one by one without labels, as restricted Boltzmann machines; then a softmax layer is added
and the whole network is fine-tuned with labels. The experiment is one of "Performance of Parallel Computing in Training
Deep Learning Models", Modern Information Technologies and IT-Education (2021); the method is from G. E. Hinton, S.
Osindero and Y.-W. Teh, "A Fast Learning Algorithm for Deep Belief Nets", Neural Computation 18 (2006).
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
"""Hyperparameters of contrastive divergence (Hinton's practical guide, sections 7 and 9)."""
WIDE = 500
"""Number of units above which the learning rate decreases: each visible unit sums over all hidden units, and with
2,000 units the full rate degraded the machine after its first steps."""


LEAST_STEPS = 150
"""Minimum number of steps of pre-training and of fine-tuning, in steps of at least 50 images (smaller batches count in
proportion): a network with three layers exceeds chance after some hundred steps."""
FLOORS = ((WIDE, 790, 0.93, 0.5), (0, 0, 0.5, 0.8))
"""(units, steps, minimum held-out accuracy, maximum ratio of the first RBM's reconstruction error to its error before
training).

Measured on the 5,000 digits with 1 to 3 layers: accuracy 0.950 to 0.962 and ratio 0.24 with 500 units after 900 steps,
where the same networks reach 0.934 to 0.944 without pre-training; at least 0.67 and at most 0.59 with 64 to 2,000 units
after 160 steps. Chance is an accuracy of 0.1.
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
    """Train a deep belief network on real digits: pre-training as Boltzmann machines, then fine-tuning with labels.

    Step times are measured on the contrastive divergence of the first machine, which no other workload covers. The
    durations of each layer's pre-training and of the fine-tuning are additional metrics. Loss, accuracy and the other
    qualities by epoch are of the fine-tuning.
    """
    import keras
    import numpy as np
    from keras import layers
    from scipy.special import expit

    from accelbench.profiling.machine.free_memory import require_memory
    from accelbench.profiling.timing.steps import QualityCurve, StepClock
    from accelbench.workloads.data import load_mnist
    from accelbench.workloads.data.pipeline import feed
    from accelbench.workloads.data.split import evenly
    from accelbench.workloads.training.experiment import experiment
    from accelbench.workloads.training.keras_model import jit_compile
    from accelbench.workloads.training.quality import CLASSIFIER, classification, confusion_of, training_quality
    from accelbench.workloads.training.rbm import rbm

    digits = load_mnist()
    x_train, x_test = (x.reshape(-1, PIXELS).astype("float32") / 255 for x in (digits.x_train, digits.x_test))
    units, batch, depth = point["units"], point["batch"], point["layers"]
    labelled = strategy.feed((x_train, digits.y_train))
    steps_done = min(point["pretraining_epochs"], point["epochs"]) * len(x_train) // max(batch, BATCH)
    if steps_done < LEAST_STEPS:
        raise Skip(
            f"{steps_done} steps cannot show that the network learns: increase pretraining_epochs and epochs, or "
            f"decrease batch, to {LEAST_STEPS} steps of at least {BATCH} images"
        )
    if point.device == "cpu":
        require_memory(memory_bytes(depth, units, batch, len(x_train)))

    def machine_on(visible: NDArray[np.floating[Any]], layer: int) -> Any:
        machine = rbm(visible.shape[1], units, k=point["k"], seed=point.seed + layer)
        # Log-odds of the pixels; otherwise the hidden units first learn the constant background (section 8.1).
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
        """Return the first machine's mean reconstruction error per pixel of the held-out images."""
        return float(first.evaluate(x_test, batch_size=batch, verbose=0, return_dict=True)["reconstruction_error"])

    def pretrain(callbacks: list[Any]) -> list[float]:
        """Train each layer as an RBM on the activations of the layer below; return the first RBM's error per epoch."""
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
        quality = QualityCurve(fine_tuning(), clock)
        begin = clock.now()
        tuned = strategy.train(network, labelled, point["epochs"], [clock.callback(), quality.callback()])
        seconds["fine_tuning"] = (clock.now() - begin) * 1e-9
        epochs = [epoch.seconds for epoch in clock.epochs]
        seconds["fine_tuning_epoch"] = float(np.median(epochs[1:] or epochs))
        seconds["fine_tuning_step"] = float(np.median(clock.samples() or [math.nan]))
        curves = {name: tuned[name] for name in ("loss", "accuracy")}
        return {"reconstruction_error": errors, **curves, **quality.curves()}

    def probabilities(images: Any = x_test) -> Any:
        return network.predict(images, batch_size=batch, verbose=0)

    sample = evenly(min(len(x_test), len(x_train)), len(x_train))

    def fine_tuning() -> Training:
        """Return the training whose quality is evaluated after each epoch of the fine-tuning."""
        return replace(
            training,
            evaluate=lambda: classification(digits.y_test, probabilities()),
            evaluate_training=lambda: training_quality(digits.y_train[sample], probabilities(x_train[sample])),
            qualities=CLASSIFIER,
        )

    def evaluate() -> dict[str, Metric]:
        return (
            classification(digits.y_test, probabilities())
            | {
                "reconstruction_error": Metric(reconstruction_error()),
                "untrained_reconstruction_error": Metric(error_before),
                "network_parameters": Metric(network.count_params()),
            }
            | {phase: Metric(taken, "s") for phase, taken in seconds.items()}
        )

    def verify(history: Mapping[str, list[float]], metrics: dict[str, Metric]) -> Verification:
        return check(depth, units, steps_done, digits.source, history, metrics)

    # Matrix products of size batch × visible × hidden: one for the hidden units of the data, two per Gibbs step
    # (visible units, then hidden units), and two for the gradient (data, and end of the chain).
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
        confusion=lambda: confusion_of(digits.y_test, probabilities()),
    )
    # The upper layers are trained on the output of the first: it must complete its pre-training.
    return replace(training, enough_epochs=None)


def parameters(depth: int, units: int) -> int:
    """Return the number of weights between neighbouring layers plus the biases of all units but the input's."""
    return (PIXELS + 1) * units + (depth - 1) * (units + 1) * units + (units + 1) * CLASSES


def memory_bytes(depth: int, units: int, batch: int, images: int) -> int:
    """Return the memory of training in bytes, with all values in float32.

    It holds each weight with its gradient and Adam's two moments; the images, and the activations of two layers for all
    of them; and for each batch about ten values per unit, for the samples and sums of the Gibbs chain.
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
    """Check the network as a classifier, and that the reconstruction error of its first machine has fallen."""
    from accelbench.workloads.training.quality import verify_classifier

    floor, share = next(floors for width, least, *floors in FLOORS if units >= width and steps >= least)
    classifier = verify_classifier(
        history,
        metrics,
        parameters=int(metrics["network_parameters"].value),
        expected_parameters=parameters(depth, units),
        floor=floor,
        source=source,
    )
    most, error = share * metrics["untrained_reconstruction_error"].value, metrics["reconstruction_error"].value
    return replace(
        classifier,
        passed=classifier.passed and error <= most,  # also False for NaN
        method=f"reconstruction error, {classifier.method}",
        expected=f"reconstruction error ≤ {most:.3g}, {classifier.expected}",
        found=f"reconstruction error {error:.3g}, {classifier.found}",
    )
