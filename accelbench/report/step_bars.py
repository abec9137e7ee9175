"""Bars of a training step: its time by cause, the parts of a traced step, and xprof's breakdown of the same steps.

Causes and parts agree: each part of a cause is scaled to the cause's share, and the rest is contention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.output.format import clip, percent, seconds
from accelbench.profiling.analysis.bottleneck import CAUSE_OF_PART
from accelbench.profiling.records.bottleneck import Bottleneck, Cause
from accelbench.profiling.records.record import Profile
from accelbench.profiling.records.trace import PARTS, Breakdown, Part, XprofSteps

BLUE, ORANGE, GREEN, PURPLE, YELLOW, PINK = (f"--series-{number}" for number in range(1, 7))
INK, MUTED, GRID = "--ink", "--muted", "--grid"
CONTENTION = ("waiting for a CPU (contention)", PINK)
"""Name and colour of the time in which threads were runnable and no CPU was free; it is drawn hatched."""
CAUSES: Mapping[Cause, tuple[str, str]] = {
    "device": ("device", BLUE),
    "contention": CONTENTION,
    "input": ("input", ORANGE),
    "dispatch": ("dispatch", MUTED),
    "transfer": ("transfer", GREEN),
    "communication": ("communication", PURPLE),
}
"""Name and colour of each cause, in drawing order."""
PART_NAMES: Mapping[Part, tuple[str, str]] = {
    "kernel": ("kernels", BLUE),
    "collective": ("collectives", PURPLE),
    "host_to_device": ("host to device", GREEN),
    "device_to_host": ("device to host", GREEN),
    "compile": ("compilation", YELLOW),
    "input_wait": ("input wait", ORANGE),
    "host": ("host", MUTED),
    "idle": ("idle", GRID),
}
"""Name and colour of each part, in drawing order."""
XPROF_COLORS: Mapping[str, str] = {
    "device compute": BLUE,
    "device collectives": PURPLE,
    "device to device": GREEN,
    "output": GREEN,
    "compilation": YELLOW,
    "input": ORANGE,
    "host compute": MUTED,
    "kernel launch": INK,
    "all others": GRID,
}
"""Colour of each of xprof's parts: the colour of the most similar part of `PART_NAMES`."""


@dataclass(frozen=True)
class Slice:
    """Part of the mean step."""

    label: str
    color: str
    """CSS variable of the colour."""
    share: float
    seconds: float | None = None
    """Time in seconds; None if only the share is known."""

    @property
    def hatched(self) -> bool:
        return (self.label, self.color) == CONTENTION

    @property
    def text(self) -> str:
        """Return the share, with the time if it is known: `50 %, 10.4 ms`."""
        return percent(self.share) + (f", {seconds(self.seconds)}" if self.seconds is not None else "")


@dataclass(frozen=True)
class Bar:
    """Stacked bar of the mean step."""

    title: str
    slices: tuple[Slice, ...]
    doubt: str | None = None
    """Reason why the shares may not be those of the measured steps."""
    note: str | None = None
    """Difference from the other bars, as text."""

    @property
    def shown(self) -> tuple[Slice, ...]:
        """Return the parts with a share above 0."""
        return tuple(part for part in self.slices if part.share > 0)


def bar_of_causes(profile: Profile, title: str) -> Bar | None:
    """Return the step's time by cause, contention included; None if the shares are unknown."""
    found = profile.bottleneck
    slices = tuple(Slice(*CAUSES[cause], found.shares.get(cause, 0.0)) for cause in CAUSES)
    return Bar(title, slices, found.apart_text) if any(part.share > 0 for part in slices) else None


def bar_of_parts(breakdown: Breakdown, found: Bottleneck) -> Bar:
    """Return the parts of the traced step, with the contention that the verdict separates from them."""
    title = f"mean of {breakdown.steps:,} traced steps, {seconds(breakdown.step_s)}"
    of_cause: dict[Cause, float] = {}
    for part in PARTS:
        cause = _cause_of(part, found)
        of_cause[cause] = of_cause.get(cause, 0.0) + breakdown.parts.get(part, 0.0)
    slices = []
    for part, (label, color) in PART_NAMES.items():
        cause, part_s = _cause_of(part, found), breakdown.parts.get(part, 0.0)
        if found.shares and of_cause[cause] > 0:
            part_s *= found.shares.get(cause, 0.0) * breakdown.step_s / of_cause[cause]
        slices.append(_slice(label, color, part_s, breakdown.step_s))
    if contention := found.shares.get("contention"):
        slices.insert(1, _slice(*CONTENTION, contention * breakdown.step_s, breakdown.step_s))
    return Bar(title, tuple(slices), found.apart_text)


def bar_of_xprof(steps: XprofSteps, covers: str, found: Bottleneck) -> Bar:
    """Return xprof's breakdown with xprof's names; unknown parts have the colour of `all others`."""
    names = sorted(steps.parts, key=lambda name: [*XPROF_COLORS, name].index(name))
    title = f"xprof's breakdown, mean of {steps.steps:,} steps, {seconds(steps.step_s)}"
    slices = [_slice(clip(n), XPROF_COLORS.get(n, GRID), steps.parts[n], steps.step_s) for n in names]
    note = "xprof does not separate contention" if found.shares.get("contention") else None
    return Bar(title + (f" ({covers})" if covers else ""), tuple(slices), note=note)


def _cause_of(part: Part, found: Bottleneck) -> Cause:
    """Return the cause that a part counts as; kernels that are shorter than their launch count as dispatch."""
    return "dispatch" if part == "kernel" and found.kernels_text else CAUSE_OF_PART[part]


def _slice(label: str, color: str, part_s: float, step_s: float) -> Slice:
    part_s = part_s if math.isfinite(part_s) and part_s > 0 else 0.0
    share = part_s / step_s if step_s > 0 else 0.0
    return Slice(label, color, share, part_s)
