"""Experiments on a training in the report: steps without one of their causes beside the measured ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accelbench.output.format import read
from accelbench.profiling.analysis.experiments import NAME
from accelbench.profiling.records.bottleneck import Cause
from accelbench.profiling.records.record import Record
from accelbench.report.bottleneck_text import experiment_text, experiments_of

BAR: dict[Cause, str] = {
    "input": "batches from memory",
    "communication": "exchange of gradients in a pause",
    "dispatch": "one launch of many calls",
}


@dataclass(frozen=True)
class StepBar:
    """Time of a step with a cause or without it, relative to the longer one."""

    name: str
    time: str
    share: float


@dataclass(frozen=True)
class ExperimentPart:
    about: str
    text: str
    bars: tuple[StepBar, ...]


def experiment_parts(record: Record) -> Iterator[ExperimentPart]:
    """Yield the experiments of a record's profile."""
    if record.profile is None or record.timing is None:
        return
    for cause, without in experiments_of(record.profile.bottleneck).items():
        seconds = without.mean_with or record.timing.execution.seconds
        longest = max(seconds, without.mean)
        bars = (
            StepBar(f"with {NAME[cause]}", str(read(seconds, "s")), seconds / longest),
            StepBar(BAR[cause], str(read(without.mean, "s", without.ci_low, without.ci_high)), without.mean / longest),
        )
        yield ExperimentPart(NAME[cause], experiment_text(cause, without), bars)
