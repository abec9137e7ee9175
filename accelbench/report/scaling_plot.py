"""The drawing of a training's scaling: speed-up against replicas, beside the ideal and what is predicted."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from accelbench.report.scaling import ScalingTable
from accelbench.report.svg import MUTED, SERIES, SURFACE, WIDTH, inline_svg, plot_style


def scaling_plot(table: ScalingTable, name: str) -> Markup:
    """Speed-up with its interval, the ideal line, and the prediction dashed; both axes logarithmic."""
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
        axes.errorbar(
            counts,
            speedups,
            (below, above),
            color=SERIES[0],
            marker="o",
            markeredgecolor=SURFACE,
            capsize=2.5,
            label="measured",
        )
        axes.legend(loc="upper left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return inline_svg(figure, name, f"{table.title}: speed-up against replicas")


def replica_axes(counts: Sequence[int], title: str) -> tuple[Figure, Axes]:
    """An empty drawing of what `title` says against these numbers of replicas, by the powers of two."""
    figure = Figure(figsize=(WIDTH, 3.2))
    axes = figure.add_axes((0.09, 0.15, 0.89, 0.75))
    axes.set_xscale("log", base=2)
    axes.set_xlabel("replicas")
    axes.set_title(title, loc="left", fontsize=9, color=MUTED)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    return figure, axes


def _predicted_speedups(table: ScalingTable) -> list[tuple[int, float]]:
    """By the predicted steps alone, over that of the smallest number."""
    if not table.predicted:
        return []
    first = table.predicted[0]

    def work(replicas: int) -> float:
        """In weak scaling a step of more replicas does more."""
        return replicas / first.replicas if table.scaling.weak else 1.0

    return [(one.replicas, work(one.replicas) * first.step_s / one.step_s) for one in table.predicted]
