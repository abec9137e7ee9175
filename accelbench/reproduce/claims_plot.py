"""Drawing of the claims: measured values relative to the published ones, a row for each claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

from markupsafe import Markup

from accelbench.output.format import clip, digits
from accelbench.profiling.timing.statistics import Estimate
from accelbench.report.fluid_svg import LINE, WIDTH, fluid_svg, text, titled
from accelbench.reproduce.judging import JudgedClaim

ENDS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Ends of the logarithmic axis, which is symmetric about 1; values beyond the last one are drawn at its end."""
TEXT = 54
"""Maximum number of characters of a verdict."""
MARGIN = 3.0
"""Margin on each side of the axis in percent of the width."""
DOT = 4
"""Radius of a dot in pixels."""


def claims_plot(claims: Sequence[JudgedClaim]) -> Markup:
    """Draw the comparisons of each claim on a common axis; return nothing if no claim has a number."""
    values = [end for judged in claims for each in judged.finding.relative for end in (each.low, each.high)]
    positive = [max(value, 1 / value) for value in values if value > 0]
    if not positive:
        return Markup("")
    end = next((end for end in ENDS if max(positive) <= end), ENDS[-1])
    y = 0
    parts: list[Markup] = []
    for judged in claims:
        parts += _row(judged, end, y)
        y += 2 * LINE + 3 * DOT * len(judged.finding.relative) + DOT
    for value in (1 / end, 1.0, end):
        anchor = "start" if value < 1 else "middle" if value == 1 else "end"
        label = text(f"{_place(value, end):.2f}%", y + LINE - 4, f"{digits(value, 2)}×", "quiet-text")
        parts.append(Markup('<g text-anchor="{}">{}</g>').format(anchor, label))
    title = f"Measured divided by published values of {len(claims)} claims, with intervals; the table has the numbers"
    return fluid_svg("claims-plot", title, y + LINE, parts)


def _row(judged: JudgedClaim, end: float, top: float) -> Iterator[Markup]:
    """Yield the texts of a claim, and a dot with an interval for each of its comparisons."""
    claim, finding = judged.claim, judged.finding
    yield titled(claim.says, [text("0", top + 14, clip(f"{claim.id}. {claim.says}", WIDTH), "bar-title")])
    numbers = [f"published {claim.published}" * bool(claim.published), f"measured {finding.ours}" * bool(finding.ours)]
    verdict = f"{finding.verdict}{f' ({finding.reason})' if finding.reason else ''}"
    yield text("0", top + LINE + 12, clip("; ".join(filter(None, [verdict, *numbers])), TEXT), "quiet-text")
    y = top + 2 * LINE + DOT
    if finding.relative:
        below = y + 3 * DOT * len(finding.relative) - DOT
        yield Markup('<line class="published" x1="50%" x2="50%" y1="{}" y2="{}"/>').format(y - 2 * DOT, below)
    for each in finding.relative:
        yield titled(_described(each), _dot(each, end, y), f"ratio {finding.verdict}")
        y += 3 * DOT


def _dot(each: Estimate, end: float, y: float) -> list[Markup]:
    low, value, high = (f"{_place(at, end):.2f}%" for at in (each.low, each.value, each.high))
    line = Markup('<line x1="{}" x2="{}" y1="{}" y2="{}"/>').format(low, high, y, y)
    return [line, Markup('<circle cx="{}" cy="{}" r="{}"/>').format(value, y, DOT)]


def _described(each: Estimate) -> str:
    return f"{digits(each.value)} times the published value ({digits(each.low)}–{digits(each.high)})"


def _place(value: float, end: float) -> float:
    """Return the position of a value on the axis in percent of the width."""
    limited = min(end, max(1 / end, value))
    share = (log(limited) / log(end) + 1) / 2
    return MARGIN + (100 - 2 * MARGIN) * share
