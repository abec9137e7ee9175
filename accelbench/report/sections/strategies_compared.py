"""Section that compares frameworks and distribution strategies: rates of the same training workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from accelbench.export.terminal import numbers_table
from accelbench.output.format import digits, seconds
from accelbench.profiling.analysis.scaling import training_of, trainings
from accelbench.profiling.records.record import Record
from accelbench.report.section import InPage, Run, Section
from accelbench.report.svg import MARKERS, SERIES, SURFACE, add_tooltips, inline_svg, plot_style, replica_axes

UNNAMED = (None, "none")
"""Values of `strategy` for training without distribution."""


@dataclass(frozen=True)
class StrategyResult:
    """Throughput of a framework and strategy on a number of replicas."""

    label: str
    replicas: int
    rate: float
    low: float
    high: float
    step_s: float


@dataclass(frozen=True)
class StrategyComparison:
    """Results of one training workload by framework, strategy and number of replicas."""

    title: str
    item: str
    entries: tuple[StrategyResult, ...]

    @property
    def fastest(self) -> float:
        return max(entry.rate for entry in self.entries)


def comparisons(records: Sequence[Record]) -> list[StrategyComparison]:
    """Return a comparison for each training workload with results of several frameworks or strategies.

    At least one result must be distributed; results of a single replica without a strategy are included.
    """
    found: dict[tuple[object, ...], list[Record]] = {}
    for record in trainings(records):
        benchmark, device, _, *params = training_of(record)
        found.setdefault((benchmark, device, *params, record.layout.scaling), []).append(record)
    return [
        _comparison(alike)
        for alike in found.values()
        if len({_engine(record) for record in alike}) > 1 and any(map(_distributed, alike))
    ]


def _content(found: Sequence[StrategyComparison], run: Run) -> Mapping[str, Any]:
    return {"drawn": [(one, strategies_plot(one, f"strategies-{n}")) for n, one in enumerate(found, start=1)]}


def _print(found: Sequence[StrategyComparison], console: Console) -> None:
    for comparison in found:
        console.print()
        console.print(Text(comparison.title, style="bold"))
        shown = numbers_table("", "replicas", f"{comparison.item}/s", "interval", "of the fastest", "step")
        for entry in comparison.entries:
            interval = f"{digits(entry.low, 3)}–{digits(entry.high, 3)}"
            share = f"{entry.rate / comparison.fastest:.0%}"
            shown.add_row(
                entry.label, str(entry.replicas), digits(entry.rate, 4), interval, share, seconds(entry.step_s)
            )
        console.print(shown)


def _engine(record: Record) -> tuple[str, str]:
    """Return the framework and the strategy."""
    return str(record.point.backend), str(record.layout.strategy)


def _distributed(record: Record) -> bool:
    return record.layout.computing_devices > 1 or record.layout.strategy not in UNNAMED


def _comparison(alike: Sequence[Record]) -> StrategyComparison:
    first = alike[0]
    engines = [_engine(record) for record in alike]
    varying = [place for place, values in enumerate(zip(*engines, strict=True)) if len(set(values)) > 1]
    labels = [" ".join(engine[place] for place in varying) for engine in engines]
    scaling = "weak scaling " if first.layout.scaling == "weak" else ""
    by = " and ".join(("framework", "strategy")[place] for place in varying)
    return StrategyComparison(
        title=f"{first.point.benchmark} {first.point.device}: {scaling}by {by}",
        item=str(first.work and first.work.item),
        entries=tuple(map(_entry, labels, alike)),
    )


def _entry(label: str, record: Record) -> StrategyResult:
    found = record.rate_interval("items")
    assert found is not None, "trainings have a rate of items"
    step_s = record.timing.execution.seconds if record.timing else 0.0
    return StrategyResult(label, record.layout.computing_devices, *found, step_s)


def strategies_plot(comparison: StrategyComparison, name: str) -> Markup:
    """Draw items per second with intervals, a line for each framework and strategy, on logarithmic axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    lines: dict[str, list[StrategyResult]] = {}
    for entry in comparison.entries:
        lines.setdefault(entry.label, []).append(entry)
    with plot_style():
        metric, axes = replica_axes(sorted({entry.replicas for entry in comparison.entries}), f"{comparison.item}/s")
        axes.set_yscale("log")
        for (label, entries), color, marker in zip(lines.items(), cycle(SERIES), cycle(MARKERS), strict=False):
            line = sorted(entries, key=lambda entry: entry.replicas)
            bars = axes.errorbar(
                [entry.replicas for entry in line],
                [entry.rate for entry in line],
                ([entry.rate - entry.low for entry in line], [entry.high - entry.rate for entry in line]),
                color=color,
                marker=marker,
                markeredgecolor=SURFACE,
                capsize=2.5,
                label=label,
            )
            marks = [f"{entry.replicas} replicas, {digits(entry.rate)} {comparison.item}/s" for entry in line]
            add_tooltips(bars.lines[0], label, marks)
        axes.legend(loc="best")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(value, 1)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="minor", length=0)
        return inline_svg(metric, name, f"{comparison.title}: {comparison.item}/s against replicas")


section = Section(
    find=lambda run: comparisons(run.records),
    page=InPage("strategies_compared.html", "strategies", "Strategies", _content),
    terminal=_print,
)
