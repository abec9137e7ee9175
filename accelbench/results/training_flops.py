"""Estimated FLOPs of a whole training run, from a table of the models' FLOPs per example."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from accelbench.profiling.records.point import Device, Point, Scalar
from accelbench.profiling.records.stored import Stored


class ModelFlopsEntry(Stored):
    """Entry of `training_flops.toml`."""

    flops: float
    """FLOPs of a training step per example."""
    at: dict[str, Scalar] = {}
    """Values of the axes for which the entry is valid."""
    examples: int = 0
    """Examples of one epoch; 0 if `steps` are known instead."""
    examples_axis: str = ""
    """Optional axis that sets the number of examples."""
    steps: dict[Device, int] = {}
    """Batches of one epoch by device."""

    def training(self, point: Point) -> float | None:
        """Return the FLOPs of all epochs of the point; None if the entry is not valid for its values."""
        values = point.values
        if any(values.get(axis) != value for axis, value in self.at.items()):
            return None
        examples = _number(values.get(self.examples_axis)) or self.examples
        steps = _number(values.get("steps")) or self.steps.get(point.device, 0)
        if steps:
            examples = steps * (_number(values.get("batch")) or 1)
        epochs = _number(values.get("epochs")) + _number(values.get("pretraining_epochs"))
        return self.flops * examples * epochs * (_number(values.get("repeats")) or 1)


def training_flops(point: Point) -> float | None:
    """Return the estimated FLOPs of the training of a point; None if the table has no model with its values."""
    entry = model_entries().get(point.benchmark)
    return entry.training(point) if entry else None


@cache
def model_entries() -> Mapping[str, ModelFlopsEntry]:
    """Return the entries of the table by benchmark."""
    text = (files("accelbench") / "results" / "training_flops.toml").read_text(encoding="utf-8")
    return {name: ModelFlopsEntry.model_validate(entry) for name, entry in tomllib.loads(text).items()}


def _number(value: Scalar | None) -> int:
    return value if isinstance(value, int) else 0
