"""Terminal output and document of a comparison: environments, points and a summary line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any, get_args

from rich.console import Console
from rich.text import Text

from accelbench.compare.change import PointChange, SpeedVerdict
from accelbench.compare.regression import Regression
from accelbench.compare.runs import Comparison
from accelbench.environment.differences import Difference
from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.export.terminal import WIDTH, differences_table, table_of
from accelbench.output.format import UNKNOWN, percent, quality_in_short, read, read_result
from accelbench.profiling.analysis.cost import by_fastest
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import MainMetric
from accelbench.profiling.timing.statistics import CONFIDENCE, Estimate

SIDES = Column("A\nB", ("{compared_a}", "{compared_b}"), right=True, whole=True)
SPEED = Column(
    f"speed of B\n{CONFIDENCE:.0%} interval", ("× {speed:.3f}", "{low:.3f}–{high:.3f}"), right=True, whole=True
)
MOST_NAMED = 3
"""Maximum number of points that a note lists by name; of more, it prints the number."""


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Print the differences between the environments, the points, and a summary line."""
    a, b = map(_shortened, comparison.labels)
    console.print(Text.assemble("B ", (b, "bold"), " against A ", (a, "bold")))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    _print_differences(comparison.differences, console)
    if comparison.changes:
        console.print()
        console.print(table_of(document_of_comparison(comparison, ())), width=min(WIDTH, console.width))
        console.print()
    if any(record.timing and by_fastest(record.timing) for change in comparison.changes for record in change.a):
        console.print(
            Text("A and B of a CPU kernel are its fastest samples; 'accelbench report' prints medians.", style="dim")
        )
    _print_notes(comparison.changes, console)
    for pair in comparison.unmeasured:
        console.print(Text.assemble((pair.point, "bold"), ": in A ", _outcomes(pair.a), "; in B ", _outcomes(pair.b)))
    for name, points in (("A", comparison.only_a), ("B", comparison.only_b)):
        for point in points:
            console.print(Text.assemble((point, "bold"), f": only in {name}"))
    console.print(_sum_up(comparison))


def _shortened(labels: Sequence[str]) -> str:
    """Return the labels of a side as text: at most `MOST_NAMED`, and the number of the others."""
    more = len(labels) - MOST_NAMED
    return ", ".join(labels[:MOST_NAMED]) + f" and {more} more" * (more > 0)


def _print_differences(found: tuple[Difference, ...], console: Console) -> None:
    relevant = [(difference.fact, difference.a, difference.b) for difference in found if difference.matters]
    others = [difference for difference in found if not difference.matters]
    if relevant:
        console.print(differences_table("A", "B", relevant), width=min(WIDTH, console.width))
    else:
        console.print(Text("The environments have no relevant differences."))
    if others:
        listed = "; ".join(f"{other.fact} {other.a} / {other.b}" for other in others)
        console.print(Text(f"Also different (A / B): {listed}", style="dim"))


def _print_notes(changes: tuple[PointChange, ...], console: Console) -> None:
    """Print the notes on the points; a note that several points share is printed once."""
    points: dict[str, list[str]] = {}
    for change in changes:
        for note in (*filter(None, [change.reason]), *change.notes):
            points.setdefault(note, []).append(change.point)
        if change.evidence:
            points.setdefault(f"interval from {change.evidence.basis}", []).append(change.point)
    for note, named in points.items():
        everywhere = len(named) == len(changes) > 1
        who = "all points" if everywhere else ", ".join(named) if len(named) <= MOST_NAMED else f"{len(named)} points"
        console.print(Text.assemble((who, "bold"), f": {note}"))


def _outcomes(records: Sequence[Record]) -> Text:
    """Return the status of the point in the runs, each with its reason and its number of runs."""
    counted = Counter((record.status, "" if record.status == "measured" else record.reason) for record in records)
    styles = {"measured": "", "failed": "bold red", "skipped": "yellow"}
    parts = []
    for (status, reason), count in counted.items():
        why = "" if status == "measured" else f" ({reason or 'no reason recorded'})"
        parts.append(Text.assemble((status, styles[status]), why, f" {count}×" if len(records) > 1 else ""))
    return Text(", ").join(parts)


def _sum_up(comparison: Comparison) -> Text:
    if not comparison.changes:
        return Text("No point was measured on both sides: nothing to compare.", style="bold yellow")
    counts = Counter(change.verdict for change in comparison.changes)
    parts = [f"{counts[verdict]} {verdict}" for verdict in get_args(SpeedVerdict) if counts[verdict]]
    parts += [f"{len(comparison.unmeasured)} not measured in every run"] if comparison.unmeasured else []
    alone = len(comparison.only_a) + len(comparison.only_b)
    parts += [f"{alone} on one side only"] if alone else []
    return Text(f"B: {', '.join(parts)} (same: within ±{percent(comparison.equivalence)})", style="bold")


def document_of_comparison(comparison: Comparison, regressions: Sequence[Regression]) -> ResultDocument:
    """Return a document with a row for each shared point: a regression is `failed`, an inconclusive point `skipped`."""
    facts = {
        "a": comparison.a,
        "b": comparison.b,
        "equivalence": comparison.equivalence,
        "differences": [{"fact": d.fact, "a": d.a, "b": d.b, "matters": d.matters} for d in comparison.differences],
        "notes": comparison.notes,
        "only_a": comparison.only_a,
        "only_b": comparison.only_b,
    }
    worse = {regression.point: regression.reason for regression in regressions}
    rows = [_change(change, worse.get(change.point)) for change in comparison.changes]
    for pair in comparison.unmeasured:
        reason = "; ".join(f"{r.status}: {r.reason}" for r in (*pair.a, *pair.b) if r.status != "measured")
        rows.append(
            DocumentRow(pair.point, {}, "failed" if pair.point in worse else "skipped", worse.get(pair.point, reason))
        )
    columns = (
        Column("point", ("{name}",), below=("{qualities}",)),
        SIDES,
        SPEED,
        Column("verdict", ("{verdict}",), below=("{certainty}",), whole=True),
    )
    return ResultDocument("compare", facts, rows, ["verdict", "change", "notes"], columns)


def _change(change: PointChange, regression: str | None) -> DocumentRow:
    bounds = change.only_noisy and any(record.bound_sign() for record in (*change.a, *change.b))
    speed = change.evidence.speed if change.evidence and not bounds else None  # a ratio of bounds is no estimate
    undecided = change.verdict == "inconclusive"
    medians = _mean_figure(change.a), _mean_figure(change.b)
    compared = _compared(change) or medians
    return DocumentRow(
        name=change.point,
        values={
            "verdict": change.verdict,
            "certainty": _certainty(change),
            **speed_values(speed),
            "figure_a": medians[0],
            "figure_b": medians[1],
            "compared_a": compared[0],
            "compared_b": compared[1],
            "qualities": list(_qualities(change)),
            "basis": change.evidence.basis if change.evidence else None,
            "disturbed": change.only_noisy,
            "notes": change.notes,
        },
        outcome="failed" if regression else "skipped" if undecided else "passed",
        reason=regression or change.reason or "",
    )


def _compared(change: PointChange) -> tuple[str, str] | None:
    """Return the compared results as text, with the sign of a bound; None if there are none."""
    if change.compared is None:
        return None
    sides, unit = (change.compared.a, change.compared.b), change.compared.unit
    metric: MainMetric | None = "time" if unit == "s" else None
    signs = [
        next(filter(None, (record.bound_sign(metric) for record in records)), "") for records in (change.a, change.b)
    ]
    a, b = (sign + read(value, unit).quantity for sign, value in zip(signs, sides, strict=True))
    return a, b


def _certainty(change: PointChange) -> str:
    """Return the largest difference within the interval for `same`, the p value of no difference otherwise."""
    if change.evidence is None or change.only_noisy:
        return ""
    if change.verdict == "same":
        speed = change.evidence.speed
        return f"within {percent(max(1 - speed.low, 1 - 1 / speed.high))}"
    return f"p = {change.evidence.p:.2g}" if change.evidence.p >= 1e-4 else "p < 0.0001"


def _mean_figure(records: Sequence[Record]) -> str:
    """Return the result of one run, or the geometric mean of several runs, which is a bound if one of them is."""
    rates = [rate for record in records if (rate := record.rate())]
    if len(rates) == len(records) > 1:
        sign = next(filter(None, (record.bound_sign() for record in records)), "")
        return sign + read(geometric_mean(rates), records[0].unit).quantity
    reading = read_result(records[0])
    return reading.quantity if reading else UNKNOWN


def _qualities(change: PointChange) -> Iterator[str]:
    """Yield each quality metric in A and in B, with its interval if it is a share of the held-out examples."""
    for quality in change.a[0].qualities:
        if quality.name in change.qualities:
            pair = zip((change.a[0], change.b[0]), change.qualities[quality.name], strict=True)
            sides = [quality_in_short(record, quality, mean) for record, mean in pair]
            between = " /\n  " if "(" in sides[0] else " / "  # two intervals do not fit one line
            yield f"{quality.name} {between.join(sides)}"


def speed_values(speed: Estimate | None) -> dict[str, Any]:
    """Return the values of B's speed relative to A's; `change` has them as text: `× 0.956 (0.951–0.960)`."""
    if speed is None:
        return dict.fromkeys(("change", "speed", "low", "high"))
    change = f"× {speed.value:.3f} ({speed.low:.3f}–{speed.high:.3f})"
    return {"change": change, "speed": speed.value, "low": speed.low, "high": speed.high}
