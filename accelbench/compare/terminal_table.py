"""The comparison as a terminal shows it: what differs between the environments, the points, and one line in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from rich.console import Console
from rich.text import Text

from accelbench.compare.change import Change, SpeedVerdict
from accelbench.compare.runs import Comparison
from accelbench.cost import by_fastest
from accelbench.differences import Difference
from accelbench.export.documents import document_of_comparison
from accelbench.export.terminal import WIDTH, differences_table, table_of
from accelbench.format import percent
from profiling.records.record import Record

MOST_NAMED = 3
"""The number of points that a note names; it counts more of them."""


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Print what differs between the environments, then the points, then one line that sums up."""
    console.print(Text.assemble("B ", (comparison.b, "bold"), " against A ", (comparison.a, "bold")))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    _print_differences(comparison.differences, console)
    if comparison.changes:
        console.print()
        console.print(table_of(document_of_comparison(comparison, ())), width=min(WIDTH, console.width))
        console.print()
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
    telling = [(difference.fact, difference.a, difference.b) for difference in found if difference.matters]
    others = [difference for difference in found if not difference.matters]
    if telling:
        console.print(differences_table("A", "B", telling), width=min(WIDTH, console.width))
    else:
        console.print(Text("The environments agree in everything that matters."))
    if others:
        told = "; ".join(f"{other.fact} {other.a} / {other.b}" for other in others)
        console.print(Text(f"Also different (A / B): {told}", style="dim"))


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
    parts = [f"{counts[verdict]} {verdict}" for verdict in get_args(SpeedVerdict) if counts[verdict]]
    parts += [f"{len(comparison.unmeasured)} not measured in every run"] if comparison.unmeasured else []
    alone = len(comparison.only_a) + len(comparison.only_b)
    parts += [f"{alone} on one side only"] if alone else []
    return Text(f"B: {', '.join(parts)} (same: within ±{percent(comparison.equivalence)})", style="bold")
