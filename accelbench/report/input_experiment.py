"""Experiment on the input in the report: steps with batches from memory beside the measured ones."""

from __future__ import annotations

from dataclasses import dataclass

from accelbench.output.format import read
from accelbench.profiling.records.record import Record
from accelbench.report.bottleneck_text import experiment_text


@dataclass(frozen=True)
class StepBar:
    """Time of a step with its input or without, relative to the longest."""

    name: str
    time: str
    share: float


@dataclass(frozen=True)
class ExperimentPart:
    text: str
    bars: tuple[StepBar, ...]
    confirms: bool


def experiment_part(record: Record) -> ExperimentPart | None:
    """Return the experiment on a record's input; None if there was none."""
    found = record.profile.bottleneck if record.profile else None
    if found is None or found.prefetched is None or record.timing is None:
        return None
    step, without = record.timing.execution, found.prefetched
    times = {
        "measured": (step.seconds, step.low, step.high),
        "batches from memory": (without.mean, without.ci_low, without.ci_high),
    }
    longest = max(seconds for seconds, _, _ in times.values())
    bars = [
        StepBar(name, str(read(seconds, "s", low, high)), seconds / longest)
        for name, (seconds, low, high) in times.items()
    ]
    return ExperimentPart(experiment_text(without), tuple(bars), bool(found.confirmed))
