"""The comparison as a terminal shows it: what differs between the environments, the points, and one line in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import geometric_mean

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.compare.change import Change, Verdict
from accelbench.compare.runs import Comparison
from accelbench.cost import by_fastest
from accelbench.differences import Difference
from accelbench.format import UNKNOWN, metric, percent, ratio_text, read, read_figure
from profiling.analysis.uncertain_quality import quality_interval
from profiling.records.quality import Metric
from profiling.records.record import Record
from profiling.timing.statistics import CONFIDENCE

WIDTH = 100
MOST_NAMED = 3
"""The number of points that a note names; it counts more of them."""
STYLES: dict[Verdict, str] = {"slower": "bold red", "faster": "green", "same": "", "cannot tell": "yellow"}


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Print what differs between the environments, then the points, then one line that sums up."""
    console.print(Text.assemble("B ", (comparison.b, "bold"), " against A ", (comparison.a, "bold")))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    _print_differences(comparison.differences, console)
    if comparison.changes:
        console.print(_table(comparison.changes), width=min(WIDTH, console.width))
    if any(record.timing and by_fastest(record.timing) for change in comparison.changes for record in change.a):
        console.print(
            Text("Figures are medians; the speed of a kernel on a CPU is by its fastest samples.", style="dim")
        )
    _print_notes(comparison.changes, console)
    for pair in comparison.unmeasured:
        console.print(Text.assemble((pair.point, "bold"), ": in A ", _outcomes(pair.a), "; in B ", _outcomes(pair.b)))
    for name, points in (("A", comparison.only_a), ("B", comparison.only_b)):
        for point in points:
            console.print(Text.assemble((point, "bold"), f": only in {name}"))
    console.print(_sum_up(comparison))


def _print_differences(found: tuple[Difference, ...], console: Console) -> None:
    telling = [difference for difference in found if difference.matters]
    others = [difference for difference in found if not difference.matters]
    if telling:
        table = Table(title="What differs and matters", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("fact", "A", "B"):
            table.add_column(name, overflow="fold")
        for difference in telling:
            table.add_row(difference.fact, Text(difference.a), Text(difference.b), style="yellow")
        console.print(table, width=min(WIDTH, console.width))
    else:
        console.print(Text("The environments agree in everything that matters."))
    if others:
        told = "; ".join(f"{other.fact} {other.a} / {other.b}" for other in others)
        console.print(Text(f"Also different (A / B): {told}", style="dim"))


def _table(changes: tuple[Change, ...]) -> Table:
    """Return the points as a table; each takes two lines, so that it fits a terminal of 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("point", overflow="fold", min_width=12)
    table.add_column("A\nB", justify="right", no_wrap=True)
    table.add_column(f"speed of B\n{CONFIDENCE:.0%} interval", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for change in changes:
        point = Text(change.point)
        for name, (in_a, in_b) in change.qualities.items():
            told = _quality(change.a[0], name, in_a), _quality(change.b[0], name, in_b)
            between = " /\n  " if "(" in told[0] else " / "  # two intervals do not fit one line
            point.append(f"\n{name} {between.join(told)}", style="dim")
        verdict = Text(change.verdict, style=STYLES[change.verdict])
        if certainty := _certainty(change):
            verdict.append(f"\n{certainty}", style="dim not bold")
        speed = Text(ratio_text(change.evidence.speed if change.evidence else None))
        table.add_row(point, Text(f"{_figure(change.a)}\n{_figure(change.b)}"), speed, verdict)
    return table


def _certainty(change: Change) -> str:
    """Return how sure the verdict is: by how little the same differ, or the p value that there is no difference."""
    if change.evidence is None or change.barred:
        return ""
    if change.verdict == "same":
        speed = change.evidence.speed
        return f"within {percent(max(1 - speed.low, 1 - 1 / speed.high))}"
    return f"p = {change.evidence.p:.2g}" if change.evidence.p >= 1e-4 else "p < 0.0001"


def _quality(record: Record, name: str, found: Metric) -> str:
    """Return a quality of a side in words, with its interval where it is a share of the record's held-out examples."""
    quality = next(quality for quality in record.qualities if quality.name == name)
    ends = quality_interval(record, quality, found.value)
    return metric(found) + (f" ({ends[0]:.3g}–{ends[1]:.3g})" if ends else "")


def _figure(records: Sequence[Record]) -> str:
    """Return the figure of one run, or the geometric mean of the figures of several."""
    rates = [rate for record in records if (rate := record.rate())]
    reading = read_figure(records[0])
    if len(rates) == len(records) > 1:
        reading = read(geometric_mean(rates), records[0].unit)
    return reading.figure if reading else UNKNOWN


def _print_notes(changes: tuple[Change, ...], console: Console) -> None:
    """Print what is to be known of the points; what many share is said once, with their number."""
    points: dict[str, list[str]] = {}
    for change in changes:
        for note in (*filter(None, [change.reason]), *change.notes):
            points.setdefault(note, []).append(change.point)
        if change.evidence:
            points.setdefault(f"the interval is that of {change.evidence.basis}", []).append(change.point)
    for note, those in points.items():
        everywhere = len(those) == len(changes) > 1
        who = "all points" if everywhere else ", ".join(those) if len(those) <= MOST_NAMED else f"{len(those)} points"
        console.print(Text.assemble((who, "bold"), f": {note}"))


def _outcomes(records: Sequence[Record]) -> Text:
    """Return what became of the point in each run; equal outcomes are told once."""
    counted = Counter((record.status, "" if record.status == "measured" else record.reason) for record in records)
    styles = {"measured": "", "failed": "bold red", "skipped": "yellow"}
    parts = []
    for (status, reason), count in counted.items():
        why = "" if status == "measured" else f" ({reason or 'no reason was recorded'})"
        parts.append(Text.assemble((status, styles[status]), why, f" {count}×" if len(records) > 1 else ""))
    return Text(", ").join(parts)


def _sum_up(comparison: Comparison) -> Text:
    if not comparison.changes:
        return Text("No point was measured on both sides.", style="bold yellow")
    counts = Counter(change.verdict for change in comparison.changes)
    parts = [f"{counts[verdict]} {verdict}" for verdict in STYLES if counts[verdict]]
    parts += [f"{len(comparison.unmeasured)} not measured in every run"] if comparison.unmeasured else []
    alone = len(comparison.only_a) + len(comparison.only_b)
    parts += [f"{alone} on one side only"] if alone else []
    return Text(f"B: {', '.join(parts)} (same: within ±{percent(comparison.equivalence)})", style="bold")
