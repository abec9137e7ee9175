"""How trainings scale: a table of replicas, rate, speed-up and efficiency, and what the lost time is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.format import UNKNOWN, digits, plain, seconds
from profiling.analysis.scaling import (
    LatencyBandwidth,
    Predicted,
    Scaling,
    Step,
    exchange_over_model,
    fit_latency_bandwidth,
    predict,
    scalings,
)
from profiling.records.record import Record
from profiling.records.step import StepParts

FURTHER = 3
"""Doublings beyond the largest cluster measured, that are predicted."""
WHOLE = 1.05
"""Of the step, that its parts may add up to."""
PARTS = {
    "compute": "computing, without any exchange",
    "launch": "starting work while nothing is computed, as far as a trace tells it from computing",
    "input": "waiting for its batch",
    "wait": "waiting for the slowest rank",
    "exposed": "exchanging gradients while nothing is computed",
}
"""The parts of a step, which add up to it."""


@dataclass(frozen=True)
class ScalingTable:
    """One training's scaling, and the predictions for clusters that were not measured."""

    scaling: Scaling
    model: LatencyBandwidth | None
    predicted: tuple[Predicted, ...]

    @property
    def title(self) -> str:
        scaling = self.scaling
        backend = f" on {scaling.backend}" if scaling.backend else ""
        kind = "weak" if scaling.weak else "strong"
        return plain(f"{scaling.benchmark} {scaling.device}{backend}, strategy {scaling.strategy}: {kind} scaling")

    @property
    def item(self) -> str:
        work = self.scaling.steps[0].record.work
        return plain(work.item if work else "items")

    @property
    def parts(self) -> list[tuple[Step, StepParts]]:
        """The steps that were taken apart."""
        return [(step, step.record.parts) for step in self.scaling.steps if step.record.parts]

    @property
    def model_text(self) -> str:
        """The fitted model in words."""
        if self.model is None:
            return ""
        bandwidth = 1 / self.model.seconds_per_byte if self.model.seconds_per_byte else float("inf")
        over_model = exchange_over_model(self.scaling, self.model)
        return (
            f"a turn of the ring takes {seconds(self.model.latency_s)} and {digits(bandwidth / 1e9, 3)} GB/s, fitted "
            f"to {self.model.points} all-reduces of this run, {self.model.error:.0%} off at worst"
            + (f"; this training's exchange alone took {digits(over_model, 2)} times that" if over_model else "")
        )


def scaling_tables(records: Sequence[Record]) -> list[ScalingTable]:
    """A table for each training that was measured on several numbers of replicas."""
    model = fit_latency_bandwidth(records)
    tables = []
    for scaling in scalings(records):
        counts = [step.replicas for step in scaling.steps]
        further = [max(counts) << more for more in range(1, FURTHER + 1)]
        predicted = predict(scaling, model, [*counts, *further]) if model else []
        tables.append(ScalingTable(scaling, model, tuple(predicted)))
    return tables


def efficiency_text(step: Step) -> str:
    """The efficiency with its interval."""
    low, high = (speedup / step.speedup * step.efficiency for speedup in (step.speedup_low, step.speedup_high))
    return f"{100 * step.efficiency:.0f} % ({100 * low:.0f}–{100 * high:.0f})"


def exchange_text(parts: StepParts) -> str:
    """The exchange by each source, how far they are apart, and whether the parts are too long for the step.

    Those without exchange are measured after the step itself: what disturbs them alone makes them longer than it.
    """
    found = [f"{name} {seconds(value)}" for name, value in parts.exchange_s.items()]
    values = parts.exchange_s.values()
    apart = (max(values) - min(values)) / parts.step_s
    whole = (parts.own_s + parts.wait_s + parts.exposed_s) / parts.step_s
    return (
        f"{', '.join(found)}: {apart:.0%} of the step apart"
        + (f", {seconds(parts.hidden_s)} hidden behind computing" if parts.hidden_s else "")
        + (f"; disturbed: the parts add up to {whole:.0%} of the step" if whole > WHOLE else "")
    )


def part_values(parts: StepParts) -> dict[str, float | None]:
    """Seconds of each of `PARTS`; None where it is not known."""
    values = (parts.compute_s, parts.launch_s, parts.input_s, parts.wait_s, parts.exposed_s)
    return dict(zip(PARTS, values, strict=True))


def print_scaling(records: Sequence[Record], console: Console) -> None:
    """Print each training's scaling and what its steps are made of; nothing where nothing was scaled."""
    for table in scaling_tables(records):
        console.print()
        console.print(Text(table.title, style="bold"))
        console.print(_rates(table))
        if table.parts:
            console.print(_parts(table.parts))
            for step, parts in table.parts:
                console.print(Text(f"{step.replicas} replicas, exchange by {exchange_text(parts)}", style="dim"))
        if table.predicted:
            console.print(_predictions(table))
            console.print(Text(f"prediction, not measured: {table.model_text}", style="dim"), soft_wrap=True)


def numbers_table(*columns: str) -> Table:
    """An empty table of columns that stand right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _rates(table: ScalingTable) -> Table:
    shown = numbers_table("replicas", f"{table.item}/s", "interval", "speed-up", "efficiency", "step")
    for step in table.scaling.steps:
        timing = step.record.timing
        shown.add_row(
            str(step.replicas),
            digits(step.rate, 4),
            f"{digits(step.rate_low, 3)}–{digits(step.rate_high, 3)}",
            f"{step.speedup:.2f} ({step.speedup_low:.2f}–{step.speedup_high:.2f})",
            efficiency_text(step),
            seconds(timing.summary.median) if timing else UNKNOWN,
        )
    return shown


def _parts(found: Iterable[tuple[Step, StepParts]]) -> Table:
    shown = numbers_table("replicas", *PARTS, "of the step")
    for step, parts in found:
        values = part_values(parts)
        shares = [UNKNOWN if value is None else f"{value / parts.step_s:.0%}" for value in values.values()]
        times = [UNKNOWN if value is None else seconds(value) for value in values.values()]
        shown.add_row(str(step.replicas), *times, " ".join(shares))
    return shown


def _predictions(table: ScalingTable) -> Table:
    shown = numbers_table("replicas", "predicted step", "predicted exchange", "measured step", "off by")
    for one in table.predicted:
        measured = UNKNOWN if one.measured_s is None else seconds(one.measured_s)
        off = UNKNOWN if one.error is None else f"{one.error:+.0%}"
        shown.add_row(str(one.replicas), seconds(one.step_s), seconds(one.exchange_s), measured, off)
    return shown
