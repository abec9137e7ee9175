"""Three tiles at the top of the page: speed, bottleneck and confidence, each with a number, a bar and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from accelbench.output.format import UNKNOWN, percent, share
from accelbench.profiling.analysis.roofline import Share
from accelbench.report.answer import RunSummary, leading_row, shares_of_kernels
from accelbench.report.bottleneck_text import bottleneck_text
from accelbench.report.causes import NOISY_MARK
from accelbench.report.plain_names import plain_name
from accelbench.report.rows import Row
from accelbench.report.section import Run
from accelbench.report.step_bars import Bar, bar_of_causes
from accelbench.report.stored_run import ConfidenceLight

Light = ConfidenceLight | Literal["unknown"]
NEAR, FAR = 0.8, 0.3
"""Shares of the ceiling from which a result is near its ceiling, and below which it is far from it."""
CONTENDED = 0.1
"""Share of contention in a step from which the light of the bottleneck is not good."""
STEPS_DRAWN = 3
"""Maximum number of training workloads with a bar of their step in the summary."""
CONFIDENCES: dict[ConfidenceLight, str] = {"good": "high", "disturbed": "noise", "bad": "failed points"}


@dataclass(frozen=True)
class SummaryTile:
    """Answer to one question about a run."""

    heading: str
    text: str
    """The answer as sentences."""
    number: str
    unit: str
    about: str
    """Meaning of the number."""
    light: Light
    word: str
    """Verdict in one or two words, so that the light is not told by its colour alone."""
    share: float | None = None
    """Filled part of the bar; None without a bar."""
    doubtful: bool = False
    """Whether the bar is hatched, because the share is of a noisy ceiling."""
    stack: Bar | None = None
    """Stacked bar, instead of a filled part."""


def tiles(found: RunSummary, run: Run) -> tuple[SummaryTile, SummaryTile, SummaryTile]:
    """Return the tiles of a run with results."""
    row = leading_row(run)
    return _speed(found, row), _bottleneck(found, row, run), _confidence(found, run)


def step_bars(run: Run) -> list[Bar]:
    """Return the step time by cause of the first training workloads with a known bottleneck."""
    rows = [row for row in run.rows if row.training and row.record.profile]
    names = [row.record.point.benchmark for row in rows]
    bars = []
    for row in rows:
        assert row.record.profile is not None
        name = row.record.point.benchmark
        title = name if names.count(name) == 1 else f"{name} {row.point}"
        bars.append(bar_of_causes(row.record.profile, title))
    return [bar for bar in bars if bar is not None][:STEPS_DRAWN]


def _speed(found: RunSummary, row: Row) -> SummaryTile:
    light, word = _of_ceiling(row.of_ceiling)
    about = plain_name(row.record)
    if row.of_ceiling.shown is not None:
        about += f", {share(row.of_ceiling)} of the measured ceiling"
    number, unit, of = NOISY_MARK * row.noisy + row.reading.value, row.reading.unit, row.of_ceiling
    return SummaryTile("Speed", found.speed, number, unit, about, light, word, of.shown, of.doubtful is not None)


def _of_ceiling(of: Share) -> tuple[Light, str]:
    """Return the light and the verdict of a share of the ceiling; those of a noisy ceiling are never good."""
    if of.shown is None:
        return "unknown", "no ceiling to compare"
    if of.doubtful is not None:
        return "disturbed", "doubtful"
    if of.shown >= NEAR:
        return "good", "near the ceiling"
    return ("disturbed", "below the ceiling") if of.shown >= FAR else ("bad", "far below the ceiling")


def _bottleneck(found: RunSummary, row: Row, run: Run) -> SummaryTile:
    profiled = row if row.record.profile else next((each for each in run.rows if each.record.profile), row)
    profile = profiled.record.profile
    bar = bar_of_causes(profile, "") if profile else None
    if profile and bar:
        first = max(bar.shown, key=lambda part: part.share)
        contended = profile.bottleneck.shares.get("contention", 0.0) >= CONTENDED
        calm = bottleneck_text(profile) == "device-bound" and not bar.doubt and not contended
        word = bottleneck_text(profile) + (", doubtful" if bar.doubt else "")
        about = f"of the step time of {profiled.record.point.benchmark}: {first.label}"
        light: Light = "good" if calm else "disturbed"
        return SummaryTile("Bottleneck", found.bottleneck, percent(first.share), "", about, light, word, stack=bar)
    if not row.training and (known := shares_of_kernels(run.rows)):
        of = known[0].of_ceiling
        about = f"lowest share of a ceiling: {plain_name(known[0].record)}"
        return SummaryTile(
            "Bottleneck", found.bottleneck, share(of), "", about, *_of_ceiling(of), of.shown, not of.value
        )
    return SummaryTile("Bottleneck", found.bottleneck, UNKNOWN, "", "", "unknown", "unknown")


def _confidence(found: RunSummary, run: Run) -> SummaryTile:
    clean, measured = run.counts.measured - run.counts.disturbed, run.counts.measured
    about, word = "results without noise", CONFIDENCES[run.light]
    filled = clean / measured if measured else 0.0
    return SummaryTile("Confidence", found.confidence, f"{clean:,}", f"of {measured:,}", about, run.light, word, filled)
