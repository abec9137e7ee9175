"""Section of the points measured in several runs: results, and speeds relative to the first run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.export.terminal import new_table
from accelbench.output.format import counted, digits, quality_text, share
from accelbench.report.joined import Joined
from accelbench.report.rows import Row
from accelbench.report.section import InPage, Section

if TYPE_CHECKING:
    from accelbench.report.same_points import SamePoints

SHOWN_IN_TERMINAL = 60
"""Maximum number of points on the terminal."""
COMPARED = "compared:"
"""Heading of the result that a speed is the ratio of, if it is not the shown result."""
NOTE = (
    "Speeds are ratios of the results. Where other load makes samples slower, as on CPUs, they are ratios of the "
    "fastest samples instead, which are listed as “compared”."
)


def _find(joined: Joined) -> SamePoints | None:
    if joined.single:
        return None
    from accelbench.report.same_points import same_points  # not needed for a single run

    return same_points(joined)


def _content(found: SamePoints, joined: Joined) -> Mapping[str, Any]:
    from accelbench.compare.evidence import ASSUMED_SPREAD
    from accelbench.report.bars_plot import bars_plot

    return {
        "drawing": bars_plot(found.shown, "side-by-side") if found.shown else "",
        "quality": quality,
        "spread": f"{100 * ASSUMED_SPREAD:g} %",
        "digits": digits,
        "most": max([1.0, *(mean.value for mean in found.means)]),
        "COMPARED": COMPARED,
        "NOTE": NOTE,
    }


def quality(row: Row) -> str:
    """Return the headline quality metric and a note on synthetic data as text; empty without both."""
    record = row.record
    judged = (one for one in record.qualities if one.headline and one.name in record.metrics)
    words = [f"{one.name.replace('_', ' ')} {quality_text(record, one)}" for one in judged]
    return ", ".join([*words, *(["synthetic data"] if record.data and record.data.synthetic else [])])


def _print(found: SamePoints, console: Console) -> None:
    console.print()
    if found.shown:
        console.print(_table(found))
    if found.means:
        console.print(_means_table(found))
    for line in _notes(found):
        console.print(Text(line, style="dim"), soft_wrap=True)


def _table(found: SamePoints) -> Table:
    numbers = ("result", "of own\nceiling", "speed")
    table = new_table("point in several runs", *numbers, right=numbers, whole=numbers)
    table.columns[0].ratio = 1
    for point in found.shown[:SHOWN_IN_TERMINAL]:
        table.add_row(Text(point.name, style="bold"))
        for entry in point.entries:
            name = Text(f"  {entry.place}")
            for note in filter(None, (quality(entry.row), *(entry.ratio.notes if entry.ratio else ()))):
                name.append(f"\n    {note}", style="dim")
            reading, ratio = entry.row.reading, entry.ratio
            metric = _over(reading.quantity, reading.interval)
            if entry.compared:
                metric.append(f"\n{COMPARED} {entry.compared}", style="dim")
            speed = _over(ratio.value, ratio.interval) if ratio else Text("1")
            table.add_row(name, metric, Text(share(entry.row.of_ceiling)), speed)
        table.add_section()
    return table


def _means_table(found: SamePoints) -> Table:
    title = f"geometric mean of the speed relative to {found.base} (without noisy points)"
    table = new_table("of", "run", "mean", "points", right=("mean", "points"), whole=("mean", "points"), title=title)
    for mean in found.means:
        table.add_row(Text(mean.of, style="bold"), Text(mean.place), f"× {digits(mean.value)}", f"{mean.points:,}")
    return table


def _over(value: str, interval: str) -> Text:
    """Return a result with its interval on a line below."""
    return Text.assemble(value, (f"\n{interval}" * bool(interval), "dim"))


def _notes(found: SamePoints) -> Iterator[str]:
    """Yield notes on points that are not in the table."""
    if any(entry.compared for point in found.shown for entry in point.entries):
        yield NOTE
    if not found.shown:
        yield "No point was measured in more than one of these runs."
    more = found.more + max(0, len(found.shown) - SHOWN_IN_TERMINAL)
    if more:
        yield f"{more:,} more points of several runs in the CSV"
    if found.single:
        yield f"{counted(found.single, 'point')} measured in one run only: see the CSV and the report of that run"


section = Section(
    find_joined=_find, page=InPage("side_by_side.html", "points", "Side by side", _content), terminal=_print
)
