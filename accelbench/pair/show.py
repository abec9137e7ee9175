"""Terminal output and document of a pair: a table of the points, their notes, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.text import Text

from accelbench.compare.comparison_document import SIDES, SPEED, speed_values
from accelbench.export.document import Column, DocumentRow, ResultDocument, RowOutcome
from accelbench.export.terminal import WIDTH, table_of
from accelbench.output.format import counted, percent, read, seconds
from accelbench.pair.interleaved import PairSeries
from accelbench.pair.paired import CONFIDENCE, LOOK_CONFIDENCE
from accelbench.pair.pairing import PairingGoal
from accelbench.pair.result import PairResult, PairVerdict, PointResult, farthest
from accelbench.pair.side import PairSide


def announce(path: Path, a: PairSide, b: PairSide, series: Sequence[PairSeries], wanted: PairingGoal) -> Text:
    """Return the header that is printed before the first measurement."""
    same = (a.word, a.settings) == (b.word, b.settings)
    check = "\nA and B are identical: this checks the machine, and only the verdict 'same' is correct" if same else ""
    return Text(
        f"pair {path}: A is {a}, B is {b}; {counted(len(series), 'point')} until ±{percent(wanted.within)}, at most "
        f"{seconds(wanted.time_limit_s)}{check}"
    )


def line_of(one: PairSeries, within: float) -> Text:
    """Return the progress of a point in one line."""
    result = one.result(within)
    line = Text(result.point, style="bold")
    if result.speed:
        speed = f"× {result.speed.value:.3f} {result.speed.low:.3f}–{result.speed.high:.3f}"
        short = "" if result.speed.confidence >= LOOK_CONFIDENCE else f" ({result.speed.confidence:.0%})"
        line.append(f"  {len(result.ratios)} pairs: speed of B {speed}{short}", style="not bold")
    elif not one.ended:
        line.append("  warm-up: measured once on each side, not counted", style="dim not bold")
    if one.ended:
        line.append(f"  {one.ended}", style="dim not bold")
    return line


def show(result: PairResult, console: Console) -> None:
    """Print the table, the notes and the summary."""
    console.print()
    console.print(table_of(document_of_pair(result, ())), width=min(WIDTH, console.width))
    console.print()
    for point in result.points:
        for note in _notes(point):
            console.print(Text.assemble((point.point, "bold"), f": {note}"), soft_wrap=True)
    for letter, names in (("A", result.only_a), ("B", result.only_b)):
        for name in names:
            console.print(Text.assemble((name, "bold"), f": only in {letter}"), soft_wrap=True)
    console.print(Text(summary(result), style="bold"), soft_wrap=True)


def summary(result: PairResult) -> str:
    """Return the result in one sentence."""
    counts = Counter(point.verdict for point in result.points)
    if len(result.points) == 1:
        (point,) = result.points
        if point.speed and point.verdict in ("slower", "faster"):
            change = percent(abs(point.speed.value - 1))
            ends = sorted((abs(point.speed.low - 1), abs(point.speed.high - 1)))
            return f"B is {point.verdict} than A by {change} ({percent(ends[0])} to {percent(ends[1])})."
        if point.speed and point.verdict == "same":
            return f"B is as fast as A, within {percent(farthest(point.speed))}."
    listed = [f"{counts[verdict]} {verdict}" for verdict in get_args(PairVerdict) if counts[verdict]]
    return f"B compared with A: {', '.join(listed)}."


def _notes(point: PointResult) -> Iterator[str]:
    if point.reason:
        yield point.reason
    if point.disturbed:
        yield f"{point.disturbed} of {2 * len(point.ratios)} measurements are noisy; noise affects both sides alike"


def document_of_pair(result: PairResult, slower: Sequence[PointResult]) -> ResultDocument:
    """Return a document with a row for each point; points of `slower` and points not measured are `failed`."""
    facts = {"a": result.a.model_dump(), "b": result.b.model_dump(), "status": result.status}
    rows = []
    for point in result.points:
        values = {
            "verdict": point.verdict,
            **speed_values(point.speed),
            "too_few_for": point.speed.confidence if point.speed and point.speed.confidence < LOOK_CONFIDENCE else None,
            "figure_a": None if point.figure_a is None else str(read(point.figure_a, point.unit)),
            "figure_b": None if point.figure_b is None else str(read(point.figure_b, point.unit)),
            "a": point.figure_a,
            "b": point.figure_b,
            "unit": point.unit,
            "pairs": len(point.ratios),
            "disturbed": point.disturbed,
        }
        failed = point in slower or point.verdict == "not measured"
        outcome: RowOutcome = "failed" if failed else "skipped" if point.verdict == "inconclusive" else "passed"
        rows.append(DocumentRow(point.point, values, outcome, point.reason or ("a regression" if failed else "")))
    columns = (
        Column("point", ("{name}",)),
        SIDES,
        replace(SPEED, title=f"speed of B\n{CONFIDENCE:.0%} interval", below=("({too_few_for:.0%})",)),
        Column("pairs", ("{pairs}",), right=True, whole=True),
        Column("B is", ("{verdict}",), whole=True),
    )
    return ResultDocument("pair", facts, rows, ["verdict", "change", "pairs", "disturbed"], columns)
