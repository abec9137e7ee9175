"""The comparison of two runs: how their environments differ, how each point's speed changed, and what got worse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.compare.change import INTERVAL_CONFIDENCE, SIGNIFICANT_P, Change, Verdict, compare_point
from accelbench.differences import Difference, differences
from accelbench.errors import UserError
from accelbench.format import UNKNOWN, metric, percent, plain, read_figure
from accelbench.run.store import RunInfo, RunStore
from profiling.records.point import Device
from profiling.records.record import Record
from profiling.timing.statistics import RatioInterval

EQUIVALENCE = 0.03
WIDTH = 100
STYLES: dict[Verdict, str] = {"slower": "bold red", "faster": "green", "same": "", "cannot tell": "yellow"}


@dataclass(frozen=True)
class Unmeasured:
    """One point of both runs that failed or was skipped in at least one of them."""

    a: Record
    b: Record

    @property
    def point(self) -> str:
        return str(self.a.point)


@dataclass(frozen=True)
class Comparison:
    """The comparison of run B with run A; `a` and `b` are their ids."""

    a: str
    b: str
    equivalence: float
    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]
    unmeasured: tuple[Unmeasured, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class FailOn:
    """The rule that says what a regression is: the loss of at least this share of the speed."""

    percent: float

    def __str__(self) -> str:
        return f"slower:{self.percent:g}%"


@dataclass(frozen=True)
class Regression:
    """A point that became worse, and how."""

    point: str
    reason: str


def compare(a: RunStore, b: RunStore, equivalence: float = EQUIVALENCE) -> Comparison:
    """Compare run B with run A; speeds that differ by less than the share `equivalence` count as the same.

    Raises `UserError` for an equivalence that is no share, and for a run that cannot be read.
    """
    if not 0 <= equivalence < 1:
        raise UserError(f"an equivalence of {equivalence:.0%} is none: choose at least 0 % and less than 100 %")
    info_a, info_b = a.info(), b.info()
    records_a, records_b = ({str(r.point): r for r in run.records()} for run in (a, b))
    shared = [(records_a[point], records_b[point]) for point in records_a if point in records_b]
    measured = [pair for pair in shared if all(record.status == "measured" for record in pair)]
    unmeasured = [pair for pair in shared if any(record.status != "measured" for record in pair)]
    devices: set[Device] = {planned.device for info in (info_a, info_b) for planned in info.plan}
    return Comparison(
        a=info_a.run_id,
        b=info_b.run_id,
        equivalence=equivalence,
        differences=differences(info_a.environment, info_b.environment, devices),
        changes=tuple(compare_point(*pair, equivalence) for pair in measured),
        unmeasured=tuple(Unmeasured(*pair) for pair in unmeasured),
        only_a=tuple(point for point in records_a if point not in records_b),
        only_b=tuple(point for point in records_b if point not in records_a),
        notes=(*_unfinished("A", info_a, len(records_a)), *_unfinished("B", info_b, len(records_b))),
    )


def _unfinished(name: str, info: RunInfo, records: int) -> Iterator[str]:
    if info.status != "finished":
        yield f"{name} is not finished ({info.status}): {records} of its {len(info.plan)} points have a record"


def parse_fail_on(text: str) -> FailOn:
    """Read `slower:5%`; `UserError` for anything else."""
    match = re.fullmatch(r"\s*slower\s*:\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    if match is None:
        raise UserError(f"--fail-on {text!r} is not understood: write it as slower:5%")
    percent = float(match[1])
    if percent >= 100:
        raise UserError(f"--fail-on {text!r}: nothing loses 100 % of its speed; slower:50% is twice the time")
    return FailOn(percent)


def regressions(comparison: Comparison, fail_on: FailOn) -> tuple[Regression, ...]:
    """Return the points that lost at least that share of their speed beyond doubt, or that B failed to measure.

    A share below the comparison's equivalence is obeyed too, whatever the verdict.
    """
    return (
        *(
            Regression(change.point, f"{percent(1 - change.speed.ratio)} slower")
            for change in comparison.changes
            if change.speed and change.p is not None
            if change.speed.ratio <= 1 - fail_on.percent / 100 and change.speed.high < 1 and change.p < SIGNIFICANT_P
        ),
        *(
            Regression(pair.point, f"measured in A, failed in B: {pair.b.reason}")
            for pair in comparison.unmeasured
            if pair.a.status == "measured" and pair.b.status == "failed"
        ),
    )


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Print what differs between the environments, then the points, then one line that sums up."""
    console.print(Text.assemble("B ", (plain(comparison.b), "bold"), " against A ", (plain(comparison.a), "bold")))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    _print_differences(comparison.differences, console)
    if comparison.changes:
        console.print(_table(comparison.changes), width=min(WIDTH, console.width))
    for change in comparison.changes:
        for note in (*filter(None, [change.reason]), *change.notes):
            console.print(Text.assemble((plain(change.point), "bold"), f": {plain(note)}"))
    for pair in comparison.unmeasured:
        console.print(
            Text.assemble((plain(pair.point), "bold"), ": in A ", _outcome(pair.a), "; in B ", _outcome(pair.b))
        )
    for name, points in (("A", comparison.only_a), ("B", comparison.only_b)):
        for point in points:
            console.print(Text.assemble((plain(point), "bold"), f": only in {name}"))
    console.print(_sum_up(comparison))


def _print_differences(found: tuple[Difference, ...], console: Console) -> None:
    telling = [difference for difference in found if difference.matters]
    others = [difference for difference in found if not difference.matters]
    if telling:
        table = Table(title="What differs and matters", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("fact", "A", "B"):
            table.add_column(name, overflow="fold")
        for difference in telling:
            table.add_row(difference.fact, Text(plain(difference.a)), Text(plain(difference.b)), style="yellow")
        console.print(table, width=min(WIDTH, console.width))
    else:
        console.print(Text("The environments agree in everything that matters."))
    if others:
        told = "; ".join(f"{other.fact} {other.a} / {other.b}" for other in others)
        console.print(Text(f"Also different (A / B): {plain(told)}", style="dim"))


def _table(changes: tuple[Change, ...]) -> Table:
    """Return the points as a table; each takes two lines, so that it fits a terminal of 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("point", overflow="fold", min_width=12)
    table.add_column("A\nB", justify="right", no_wrap=True)
    table.add_column(f"speed of B\n{INTERVAL_CONFIDENCE:.0%} interval", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for change in changes:
        point = Text(plain(change.point))
        for name, (in_a, in_b) in change.qualities.items():
            point.append(f"\n{plain(name)} {metric(in_a)} / {metric(in_b)}", style="dim")
        verdict = Text(change.verdict, style=STYLES[change.verdict])
        if change.p is not None:
            verdict.append(f"\np = {change.p:.2g}" if change.p >= 1e-4 else "\np < 0.0001", style="dim not bold")
        table.add_row(point, Text(f"{_figure(change.a)}\n{_figure(change.b)}"), _speed(change.speed), verdict)
    return table


def _figure(record: Record) -> str:
    reading = read_figure(record)
    return f"{reading.value} {reading.unit}" if reading else UNKNOWN


def _speed(speed: RatioInterval | None) -> Text:
    """Return the ratio and its interval, with the coverage that it really has where the samples are too few."""
    if speed is None:
        return Text(UNKNOWN)
    short = "" if speed.confidence >= INTERVAL_CONFIDENCE else f" ({speed.confidence:.0%})"
    return Text(f"× {speed.ratio:.3f}\n{speed.low:.3f}–{speed.high:.3f}{short}")


def _outcome(record: Record) -> Text:
    if record.status == "measured":
        return Text("measured")
    style = "bold red" if record.status == "failed" else "yellow"
    return Text.assemble((record.status, style), f" ({plain(record.reason or 'no reason was recorded')})")


def _sum_up(comparison: Comparison) -> Text:
    if not comparison.changes:
        return Text("No point was measured in both runs.", style="bold yellow")
    counts = Counter(change.verdict for change in comparison.changes)
    parts = [f"{counts[verdict]} {verdict}" for verdict in STYLES if counts[verdict]]
    parts += [f"{len(comparison.unmeasured)} not measured in both"] if comparison.unmeasured else []
    alone = len(comparison.only_a) + len(comparison.only_b)
    parts += [f"{alone} in one run only"] if alone else []
    return Text(f"B: {', '.join(parts)} (same: within ±{percent(comparison.equivalence)})", style="bold")
