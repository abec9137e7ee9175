"""The outcome of a pairing on the terminal: a table of the points, what is to be known of each, and a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.format import UNKNOWN, percent, ratio_text, read, seconds
from accelbench.pair.paired import CONFIDENCE, LOOK_CONFIDENCE
from accelbench.pair.pairing import Wanted
from accelbench.pair.result import PairResult, PointResult, Verdict, farthest
from accelbench.pair.side import Side
from accelbench.pair.turns import Course

WIDTH = 100
STYLES: dict[Verdict, str] = {
    "slower": "bold red",
    "faster": "green",
    "same": "",
    "cannot tell": "yellow",
    "not measured": "bold red",
}


def announce(path: Path, a: Side, b: Side, courses: Sequence[Course], wanted: Wanted) -> Text:
    """Return what is said before the first measurement."""
    points = f"{len(courses)} point{'s' if len(courses) > 1 else ''}"
    same = (a.word, a.settings) == (b.word, b.settings)
    check = (
        "\nA and B are the same, which checks the machine: a verdict of faster or slower would be false" if same else ""
    )
    return Text(
        f"pair {path}: A is {a}, B is {b}; {points} in turns until ±{percent(wanted.within)}, "
        f"{seconds(wanted.time_limit_s)} at most{check}"
    )


def line_of(course: Course, within: float) -> Text:
    """Return how far a point has come, in one line."""
    result = course.result(within)
    line = Text(result.point, style="bold")
    if result.speed:
        told = " ".join(ratio_text(result.speed, LOOK_CONFIDENCE).splitlines())
        line.append(f"  {len(result.ratios)} pairs: speed of B {told}", style="not bold")
    elif not course.ended:
        line.append("  was measured once on each side, which does not count", style="dim not bold")
    if course.ended:
        line.append(f"  {course.ended}", style="dim not bold")
    return line


def show(result: PairResult, console: Console) -> None:
    """Print the table, the notes and the sentence."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("point", overflow="fold", min_width=12)
    table.add_column("A\nB", justify="right", no_wrap=True)
    table.add_column(f"speed of B\n{CONFIDENCE:.0%} interval", justify="right", no_wrap=True)
    table.add_column("pairs", justify="right", no_wrap=True)
    table.add_column("B is", no_wrap=True)
    for point in result.points:
        figures = "\n".join(_figure(value, point.unit) for value in (point.figure_a, point.figure_b))
        verdict = Text(point.verdict, style=STYLES[point.verdict])
        speed = ratio_text(point.speed, LOOK_CONFIDENCE)
        table.add_row(Text(point.point), figures, speed, str(len(point.ratios)), verdict)
    console.print(table, width=min(WIDTH, console.width))
    for point in result.points:
        for note in _notes(point):
            console.print(Text.assemble((point.point, "bold"), f": {note}"), soft_wrap=True)
    for letter, names in (("A", result.only_a), ("B", result.only_b)):
        for name in names:
            console.print(Text.assemble((name, "bold"), f": only in {letter}"), soft_wrap=True)
    console.print(Text(sentence(result), style="bold"), soft_wrap=True)


def _figure(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else str(read(value, unit))


def sentence(result: PairResult) -> str:
    """Return the outcome in a sentence."""
    counts = Counter(point.verdict for point in result.points)
    if len(result.points) == 1:
        (point,) = result.points
        if point.speed and point.verdict in ("slower", "faster"):
            change = percent(abs(point.speed.value - 1))
            ends = sorted((abs(point.speed.low - 1), abs(point.speed.high - 1)))
            return f"B is {point.verdict} than A by {change} ({percent(ends[0])} to {percent(ends[1])})."
        if point.speed and point.verdict == "same":
            return f"B is as fast as A: they differ by {percent(farthest(point.speed))} at most."
    told = [f"{counts[verdict]} {verdict}" for verdict in STYLES if counts[verdict]]
    return f"B against A: {', '.join(told)}."


def _notes(point: PointResult) -> Iterator[str]:
    if point.reason:
        yield point.reason
    if point.disturbed:
        yield f"{point.disturbed} of {2 * len(point.ratios)} measurements were disturbed; neighbours suffer alike"
