"""The drawing of one training by several frameworks or strategies: their rates against the number of replicas."""

from __future__ import annotations

from itertools import cycle

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from accelbench.report.figures import digits
from accelbench.report.strategies import Comparison, Entry
from accelbench.report.svg import MARKERS, MUTED, SERIES, SURFACE, WIDTH, inline_svg, plot_style


def strategies_plot(comparison: Comparison, name: str) -> Markup:
    """Items per second with their intervals, a line for each framework and strategy; both axes logarithmic."""
    lines: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        lines.setdefault(entry.label, []).append(entry)
    with plot_style():
        figure = Figure(figsize=(WIDTH, 3.2))
        axes = figure.add_axes((0.09, 0.15, 0.89, 0.75))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for (label, entries), color, marker in zip(lines.items(), cycle(SERIES), cycle(MARKERS), strict=False):
            line = sorted(entries, key=lambda entry: entry.replicas)
            axes.errorbar(
                [entry.replicas for entry in line],
                [entry.rate for entry in line],
                ([entry.rate - entry.low for entry in line], [entry.high - entry.rate for entry in line]),
                color=color,
                marker=marker,
                markeredgecolor=SURFACE,
                capsize=2.5,
                label=label,
            )
        axes.legend(loc="best")
        axes.set_xlabel("replicas")
        axes.set_title(f"{comparison.item}/s", loc="left", fontsize=9, color=MUTED)
        axes.xaxis.set_major_locator(FixedLocator(sorted({entry.replicas for entry in comparison.entries})))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(value, 1)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="minor", length=0)
        return inline_svg(figure, name, f"{comparison.title}: {comparison.item}/s against replicas")
