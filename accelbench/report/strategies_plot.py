"""The drawing of one training by several frameworks or strategies: their rates against the number of replicas."""

from __future__ import annotations

from itertools import cycle

from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from accelbench.format import digits
from accelbench.report.scaling_plot import replica_axes
from accelbench.report.strategies import Comparison, Entry
from accelbench.report.svg import MARKERS, SERIES, SURFACE, inline_svg, plot_style


def strategies_plot(comparison: Comparison, name: str) -> Markup:
    """Items per second with their intervals, a line for each framework and strategy; both axes logarithmic."""
    lines: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        lines.setdefault(entry.label, []).append(entry)
    with plot_style():
        figure, axes = replica_axes(sorted({entry.replicas for entry in comparison.entries}), f"{comparison.item}/s")
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
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(value, 1)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="minor", length=0)
        return inline_svg(figure, name, f"{comparison.title}: {comparison.item}/s against replicas")
