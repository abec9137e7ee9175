"""Training curves: quality metrics of a model over the epochs."""

from __future__ import annotations

import re
from collections.abc import Collection
from math import ceil

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from accelbench.profiling.records.record import Record
from accelbench.report.svg import SERIES, WIDTH, add_tooltips, inline_svg, plot_style

FIRST_CURVES = ("loss", "accuracy", "precision", "recall", "f1")
"""Curves that are drawn first, followed by curves with held-out data."""
CURVES, IN_A_ROW = 6, 4
"""Maximum numbers of panels in one drawing, and of panels in one row; more panels are in rows of three."""
ROW_HEIGHT = 2.6
"""Height of a row in inches."""
MAX_TOOLTIPS = 40
"""Maximum number of epochs with a tooltip for each, which limits the size of the page."""
MOST_TICKS = 6
"""Maximum number of labelled epochs on the axis."""


def _curve_rank(base: str, curves: Collection[str]) -> int:
    if base in FIRST_CURVES:
        return FIRST_CURVES.index(base)
    return len(FIRST_CURVES) + (f"val_{base}" not in curves)


def training_curves(record: Record, name: str) -> Markup | None:
    """Draw a panel per metric over the epochs, for training and held-out data (`val_`); return None without curves."""
    bases = list(dict.fromkeys(key.removeprefix("val_") for key in record.curves))
    bases = sorted(bases, key=lambda base: _curve_rank(base, record.curves))[:CURVES]
    if not bases:
        return None
    with plot_style():
        columns = len(bases) if len(bases) <= IN_A_ROW else 3
        rows = ceil(len(bases) / columns)
        figure = Figure(figsize=(WIDTH, ROW_HEIGHT * rows))
        width = 0.9 / columns
        for index, base in enumerate(bases):
            row, column = divmod(index, columns)
            bottom = (rows - 1 - row + 0.19) / rows
            axes = figure.add_axes((0.07 + column * (width + 0.02), bottom, width - 0.06, 0.66 / rows))
            for key, label, style in ((base, "training data", "-o"), (f"val_{base}", "held-out data", "-s")):
                values = record.curves.get(key)
                if values:
                    epochs = np.arange(1, len(values) + 1)
                    color = SERIES[0] if key == base else SERIES[1]
                    (line,) = axes.plot(epochs, values, style, color=color, label=label, markersize=3, linewidth=1.6)
                    marks = [f"epoch {epoch}, {value:.4g}" for epoch, value in zip(epochs, values, strict=True)]
                    add_tooltips(line, label, marks if len(marks) <= MAX_TOOLTIPS else ())
            axes.set_title(re.sub("_s$", " in s", base).replace("_", " "), fontsize=9.5, loc="left")
            axes.set_xlabel("epoch")
            count = max(len(record.curves.get(key) or ()) for key in (base, f"val_{base}"))
            few = FixedLocator(range(1, count + 1))  # avoids fractional epochs
            axes.xaxis.set_major_locator(few if count <= MOST_TICKS else MaxNLocator(MOST_TICKS, integer=True))
            if count == 1:
                axes.set_xlim(0.5, 1.5)
            axes.yaxis.set_major_locator(MaxNLocator(5))
            if index == 0 and f"val_{base}" in record.curves:
                axes.legend(loc="best")
        title = f"Training curves of {record.point}: {', '.join(bases)} by epoch"
        return inline_svg(figure, name, title)
