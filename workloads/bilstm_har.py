"""Human activity recognition with stacked bidirectional LSTMs.

Kimm, Paik & Kimm, "Performance Comparison of TPU, GPU, CPU on Google Colaboratory over Distributed Deep Learning"
(MCSoC-2021): BiLSTM layers, then LSTM(64) and a softmax; Adam; sweeps over units and layers; repeated, 30 epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification, WorstQuality
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.training.declare import training

LAST_UNITS = 64
CLASSES = 6
TARGET = 0.85
"""Held-out accuracy, on subjects without training examples."""


FLOORS = ((24_000, 0.8), (6_000, 0.55), (0, 0.2))
"""(windows trained on, minimum held-out accuracy). The six activities are about equally frequent."""
ALL = 0
"""Value of the axis `windows` for all training windows."""


@training(
    "bilstm-har",
    axes={"units": (64,), "layers": (2,), "batch": (64,), "epochs": (15,), "repeats": (1,)},
    limits={"units": (1, 4096), "layers": (1, 8), "repeats": (1, 100), "windows": (ALL, 1 << 20)},
    optional={"windows": (ALL,)},
    distributed=True,
)
def bilstm_har(point: Point, strategy: Strategy) -> Training:
    """Train the paper's stack of bidirectional LSTMs on smartphone sensor data, with whole subjects held out.

    Runs with fewer `windows` than available measure the time per step; their accuracy has no target.
    """
    import keras
    from keras import layers

    from accelbench.workloads.data import load_har
    from accelbench.workloads.data.har import ACTIVITIES
    from accelbench.workloads.data.split import evenly
    from accelbench.workloads.training.experiment import classifier
    from accelbench.workloads.training.keras_model import jit_compile

    har = load_har()
    available = len(har.x_train)
    windows = int(point.params.get("windows", ALL)) or available
    if windows > available:
        raise Skip(f"windows={windows:,} exceeds the {available:,} training windows")
    whole = windows == available
    note = har.note if whole else f"{windows:,} of {available:,} windows: measures the time per step only"
    centre, spread = har.x_train.mean(axis=(0, 1)), har.x_train.std(axis=(0, 1))
    x_train, x_test = ((x - centre) / spread for x in (har.x_train, har.x_test))
    chosen = evenly(windows, available)
    examples = (x_train[chosen], keras.utils.to_categorical(har.y_train[chosen], CLASSES))
    readings, channels = x_train.shape[1:]

    def build() -> Any:
        model = keras.Sequential([keras.Input((readings, channels))])
        for _ in range(point["layers"]):
            model.add(layers.Bidirectional(layers.LSTM(point["units"], return_sequences=True)))
        model.add(layers.LSTM(LAST_UNITS))
        model.add(layers.Dense(CLASSES, activation="softmax", dtype="float32"))
        return model

    def compiled(model: Any) -> Any:
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"], jit_compile=jit_compile(point))
        return model

    model = compiled(build())
    single = classifier(
        strategy,
        model,
        strategy.feed(examples),
        Data(har.source, windows, len(x_test), trainings=point["repeats"], note=note),
        (x_test, har.y_test),
        parameters=parameters(point["units"], point["layers"], channels),
        floors=FLOORS if whole else (),
        item="windows",
        target=TARGET if whole else None,
        subjects=har.subjects_test,
        trained_on=(x_train, har.y_train) if whole else None,
        names=ACTIVITIES,
    )
    epochs = int(point["epochs"])
    repeated: list[dict[str, Metric]] = []

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        """Train for the epochs of all repeats; each repeat has its own initial weights and data order."""
        history = single.fit(callbacks)
        for repeat in range(1, point["repeats"]):
            repeated.append(single.evaluate())
            seed = point.seed + repeat
            keras.utils.set_random_seed(seed)
            with strategy.scope():
                compiled(model).set_weights(build().get_weights())
            more = strategy.train(model, strategy.feed(examples, seed=seed), epochs, callbacks)
            history = {name: values + more[name] for name, values in history.items()}
        return history

    def evaluate() -> dict[str, Metric]:
        """Return the metrics of the current weights; after the last repeat: mean, deviation and worst value."""
        last = single.evaluate()
        if len(repeated) + 1 < point["repeats"] or not repeated:
            return last
        return over_trainings(single.qualities, [*repeated, last])

    def verify(history: Mapping[str, list[float]], qualities: dict[str, Metric]) -> Verification:
        """Check the loss of the last repeat, and the metrics."""
        return single.verify({"loss": history["loss"][-epochs:]}, qualities)

    over = f"{point['repeats']} trainings"
    qualities = tuple(
        replace(each, deviation=f"{each.name}_std", worst=(*each.worst, WorstQuality(f"{each.name}_worst", over)))
        for each in single.qualities
    )
    enough = single.enough_epochs if point["repeats"] == 1 else None
    return replace(single, fit=fit, evaluate=evaluate, verify=verify, qualities=qualities, enough_epochs=enough)


def over_trainings(qualities: Sequence[Quality], trainings: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    """Combine the metrics of several training runs: mean, and standard deviation and worst value per quality metric."""
    values = {name: [found[name].value for found in trainings] for name in trainings[0]}
    found = {name: Metric(mean(each)) for name, each in values.items()}
    for quality in qualities:
        found |= {f"{quality.name}_std": Metric(stdev(values[quality.name]))}
        found |= {f"{quality.name}_worst": Metric(quality.worst_of(values[quality.name]))}
        found |= {each.name: Metric(quality.worst_of(values[each.name])) for each in quality.worst}
    return found


def parameters(units: int, layers: int, channels: int) -> int:
    """Return the number of parameters of the model.

    An LSTM unit has four gates, each with a weight per input, a weight per recurrent state, and a bias.
    """

    def lstm(inputs: int, units: int) -> int:
        return 4 * units * (inputs + units + 1)

    first = 2 * lstm(channels, units)
    return first + (layers - 1) * 2 * lstm(2 * units, units) + lstm(2 * units, LAST_UNITS) + CLASSES * (LAST_UNITS + 1)
