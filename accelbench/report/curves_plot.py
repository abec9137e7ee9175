"""Training curves: the qualities of a trained model over its epochs."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from accelbench.profiling.records.record import Record
from accelbench.report.svg import SERIES, WIDTH, inline_svg, plot_style, tell

FIRST_CURVES = ("loss", "accuracy", "precision", "recall")
"""The curves of a training that are drawn before any others, then what was evaluated on held-out data."""
CURVES = 4
"""The most curves in one drawing of a training."""
MARKS_TOLD = 40
"""The most epochs of a training whose values the pointer tells: the page stays small."""
MOST_TICKS = 6
"""The most epochs that are labelled on an axis."""


def _curve_rank(base: str, curves: Collection[str]) -> int:
    if base in FIRST_CURVES:
        return FIRST_CURVES.index(base)
    return len(FIRST_CURVES) + (f"val_{base}" not in curves)


def training_curves(record: Record, name: str) -> Markup | None:
    """Draw a panel per quality over the epochs, for training data and held-out data (`val_`); None if there is none."""
    bases = list(dict.fromkeys(key.removeprefix("val_") for key in record.curves))
    bases = sorted(bases, key=lambda base: _curve_rank(base, record.curves))[:CURVES]
    if not bases:
        return None
    with plot_style():
        figure = Figure(figsize=(WIDTH, 2.6))
        for index, base in enumerate(bases):
            width = 0.9 / len(bases)
            axes = figure.add_axes((0.07 + index * (width + 0.02), 0.19, width - 0.06, 0.66))
            for key, label, style in ((base, "training data", "-o"), (f"val_{base}", "held-out data", "-s")):
                values = record.curves.get(key)
                if values:
                    epochs = np.arange(1, len(values) + 1)
                    color = SERIES[0] if key == base else SERIES[1]
                    (line,) = axes.plot(epochs, values, style, color=color, label=label, markersize=3, linewidth=1.6)
                    marks = [f"epoch {epoch}, {value:.4g}" for epoch, value in zip(epochs, values, strict=True)]
                    tell(line, label, marks if len(marks) <= MARKS_TOLD else ())
            axes.set_title(re.sub("_s$", " in s", base).replace("_", " "), fontsize=9.5, loc="left")
            axes.set_xlabel("epoch")
            count = max(len(record.curves.get(key) or ()) for key in (base, f"val_{base}"))
            few = FixedLocator(range(1, count + 1))  # of one epoch, fractions would be printed over each other
            axes.xaxis.set_major_locator(few if count <= MOST_TICKS else MaxNLocator(MOST_TICKS, integer=True))
            if count == 1:
                axes.set_xlim(0.5, 1.5)
            axes.yaxis.set_major_locator(MaxNLocator(5))
            if index == 0 and f"val_{base}" in record.curves:
                axes.legend(loc="best")
        title = f"Training curves of {record.point}: {', '.join(bases)} by epoch"
        return inline_svg(figure, name, title)
