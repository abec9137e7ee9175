"""Section of the scaling of training workloads: rate, speed-up and efficiency by replicas, and parts of a step."""

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
from accelbench.report.svg import MUTED, SERIES, SURFACE, add_tooltips, inline_svg, plot_style, replica_axes

FURTHER = 3
"""Number of predicted doublings beyond the largest measured number of replicas."""
WHOLE = 1.05
"""Share of the step above which the sum of its parts is flagged as noisy."""
PARTS = {
    "compute": "computation without gradient exchange",
    "launch": "launch overhead during which nothing is computed, if known from a trace",
    "input": "waiting for input",
    "wait": "waiting for the slowest rank",
    "exposed": "gradient exchange that is not overlapped with computation",
}
"""Parts of a step, which add up to the step."""


@dataclass(frozen=True)
class ScalingTable:
    """Scaling of one training workload, with predictions for unmeasured numbers of replicas."""

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
        """Return the steps with known parts."""
        return [(step, step.record.parts) for step in self.scaling.steps if step.record.parts]

    @property
    def model_text(self) -> str:
        """Return the fitted latency–bandwidth model as text."""
        if self.model is None:
            return ""
        bandwidth = 1 / self.model.seconds_per_byte if self.model.seconds_per_byte else float("inf")
        over_model = exchange_over_model(self.scaling, self.model)
        return (
            f"ring all-reduce with {seconds(self.model.latency_s)} latency per step and {digits(bandwidth / 1e9, 3)} "
            f"GB/s, fitted to {self.model.points} all-reduces of this run (maximum error {self.model.error:.0%})"
            + (f"; the isolated exchange of this workload took {digits(over_model, 2)}× as long" if over_model else "")
        )


def scaling_tables(records: Sequence[Record]) -> list[ScalingTable]:
    """Return a table for each training workload measured with several numbers of replicas."""
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
    """Return the efficiency with its interval as text."""
    low, high = (speedup / step.speedup * step.efficiency for speedup in (step.speedup_low, step.speedup_high))
    return f"{100 * step.efficiency:.0f} % ({100 * low:.0f}–{100 * high:.0f})"


def exchange_text(parts: StepParts) -> str:
    """Return the exchange by each source, the sources' difference, and a flag if the parts exceed the step, as text.

    The parts are measured after the step; noise at that time can make their sum larger than the step.
    """
    found = [f"{name} {seconds(value)}" for name, value in parts.exchange_s.items()]
    values = parts.exchange_s.values()
    difference = (max(values) - min(values)) / parts.step_s
    whole = (parts.own_s + parts.wait_s + parts.exposed_s) / parts.step_s
    return (
        f"{', '.join(found)} (difference {difference:.0%} of the step)"
        + (f", {seconds(parts.hidden_s)} overlapped with computation" if parts.hidden_s else "")
        + (f"; noisy: the parts add up to {whole:.0%} of the step" if whole > WHOLE else "")
    )


def part_values(parts: StepParts) -> dict[str, float | None]:
    """Return the seconds of each part in `PARTS`; None if unknown."""
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
    shown = numbers_table("replicas", "predicted step", "predicted exchange", "measured step", "error")
    for one in table.predicted:
        measured = UNKNOWN if one.measured_s is None else seconds(one.measured_s)
        off = UNKNOWN if one.error is None else f"{one.error:+.0%}"
        shown.add_row(str(one.replicas), seconds(one.step_s), seconds(one.exchange_s), measured, off)
    return shown


def scaling_plot(table: ScalingTable, name: str) -> Markup:
    """Draw the speed-up with its interval, the ideal speed-up, and the prediction (dashed), on logarithmic axes."""
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
        metric, axes = replica_axes(every, f"speed-up over {least}")
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
        add_tooltips(
            bars.lines[0], "measured", [f"{step.replicas} replicas, × {digits(step.speedup)}" for step in steps]
        )
        axes.legend(loc="upper left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return inline_svg(metric, name, f"{table.title}: speed-up against replicas")


def _predicted_speedups(table: ScalingTable) -> list[tuple[int, float]]:
    """Return the predicted speed-ups relative to the smallest number of replicas."""
    if not table.predicted:
        return []
    first = table.predicted[0]

    def work(replicas: int) -> float:
        """Return the relative work of a step, which grows with the replicas in weak scaling."""
        return replicas / first.replicas if table.scaling.weak else 1.0

    return [(one.replicas, work(one.replicas) * first.step_s / one.step_s) for one in table.predicted]


section = Section(
    find=lambda run: scaling_tables(run.records),
    page=InPage("scaling_of_trainings.html", "scaling", "Scaling", _content),
    terminal=_print,
)
