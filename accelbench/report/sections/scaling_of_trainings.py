"""The scaling of trainings: a table of replicas, rate, speed-up and efficiency, and what the lost time is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.export.terminal import numbers_table
from accelbench.output.format import UNKNOWN, digits, seconds
from accelbench.profiling.analysis.scaling import (
    LatencyBandwidth,
    PredictedScaling,
    Scaling,
    ScalingStep,
    exchange_over_model,
    fit_latency_bandwidth,
    predict,
    scalings,
)
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.step import StepParts
from accelbench.report.section import InPage, Run, Section
from accelbench.report.svg import MUTED, SERIES, SURFACE, inline_svg, plot_style, replica_axes, tell

FURTHER = 3
"""The number of doublings beyond the largest measured cluster that are predicted."""
WHOLE = 1.05
"""The parts of a step count as disturbed when they sum to more than this share of the step."""
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
    predicted: tuple[PredictedScaling, ...]

    @property
    def title(self) -> str:
        scaling = self.scaling
        backend = f" on {scaling.backend}" if scaling.backend else ""
        kind = "weak" if scaling.weak else "strong"
        return f"{scaling.benchmark} {scaling.device}{backend}, strategy {scaling.strategy}: {kind} scaling"

    @property
    def item(self) -> str:
        work = self.scaling.steps[0].record.work
        return work.item if work else "items"

    @property
    def parts(self) -> list[tuple[ScalingStep, StepParts]]:
        """Return the steps that were taken apart."""
        return [(step, step.record.parts) for step in self.scaling.steps if step.record.parts]

    @property
    def model_text(self) -> str:
        """Return the fitted model in words."""
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
    """Return a table for each training that was measured on several numbers of replicas."""
    found = scalings(records)
    model = fit_latency_bandwidth(records) if found else None
    tables = []
    for scaling in found:
        counts = [step.replicas for step in scaling.steps]
        further = [max(counts) << more for more in range(1, FURTHER + 1)]
        predicted = predict(scaling, model, [*counts, *further]) if model else []
        tables.append(ScalingTable(scaling, model, tuple(predicted)))
    return tables


def efficiency_text(step: ScalingStep) -> str:
    """Return the efficiency with its interval."""
    low, high = (speedup / step.speedup * step.efficiency for speedup in (step.speedup_low, step.speedup_high))
    return f"{100 * step.efficiency:.0f} % ({100 * low:.0f}–{100 * high:.0f})"


def exchange_text(parts: StepParts) -> str:
    """Return the exchange by each source, how far they are apart, and whether the parts are too long for the step.

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
    """Return the seconds of each of `PARTS`; None where it is not known."""
    values = (parts.compute_s, parts.launch_s, parts.input_s, parts.wait_s, parts.exposed_s)
    return dict(zip(PARTS, values, strict=True))


def _content(found: Sequence[ScalingTable], run: Run) -> Mapping[str, Any]:
    return {
        "PARTS": PARTS,
        "drawn": [(table, scaling_plot(table, f"scaling-{n}")) for n, table in enumerate(found, start=1)],
        "efficiency_text": efficiency_text,
        "exchange_text": exchange_text,
        "part_values": part_values,
    }


def _print(found: Sequence[ScalingTable], console: Console) -> None:
    for table in found:
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
            seconds(timing.execution.seconds) if timing else UNKNOWN,
        )
    return shown


def _parts(found: Iterable[tuple[ScalingStep, StepParts]]) -> Table:
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


def scaling_plot(table: ScalingTable, name: str) -> Markup:
    """Draw the speed-up with its interval, the ideal line, and the prediction dashed; both axes logarithmic."""
    from matplotlib.ticker import FuncFormatter

    steps = table.scaling.steps
    least = steps[0].replicas
    counts = [step.replicas for step in steps]
    speedups = [step.speedup for step in steps]
    below = [step.speedup - step.speedup_low for step in steps]
    above = [step.speedup_high - step.speedup for step in steps]
    predicted = _predicted_speedups(table)
    every = sorted({*counts, *(count for count, _ in predicted)})
    with plot_style():
        figure, axes = replica_axes(every, f"speed-up over {least}")
        axes.set_yscale("log", base=2)
        axes.plot(every, [count / least for count in every], color=MUTED, linewidth=1, label="ideal")
        if predicted:
            axes.plot(*zip(*predicted, strict=True), color=SERIES[1], linestyle=(0, (5, 2)), label="predicted")
        bars = axes.errorbar(
            counts,
            speedups,
            (below, above),
            color=SERIES[0],
            marker="o",
            markeredgecolor=SURFACE,
            capsize=2.5,
            label="measured",
        )
        tell(bars.lines[0], "measured", [f"{step.replicas} replicas, × {digits(step.speedup)}" for step in steps])
        axes.legend(loc="upper left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return inline_svg(figure, name, f"{table.title}: speed-up against replicas")


def _predicted_speedups(table: ScalingTable) -> list[tuple[int, float]]:
    """Return the speed-ups by the predicted steps alone, over the step of the smallest number of replicas."""
    if not table.predicted:
        return []
    first = table.predicted[0]

    def work(replicas: int) -> float:
        """Return the work of a step: in weak scaling a step of more replicas does more."""
        return replicas / first.replicas if table.scaling.weak else 1.0

    return [(one.replicas, work(one.replicas) * first.step_s / one.step_s) for one in table.predicted]


section = Section(
    find=lambda run: scaling_tables(run.records),
    page=InPage("scaling_of_trainings.html", "scaling", "Scaling", _content),
    terminal=_print,
)
