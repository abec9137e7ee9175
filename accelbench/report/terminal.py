"""The table that ends a run on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.format import UNKNOWN, bound, metric, one_line, plain, share
from accelbench.report.host_cores import print_cores
from accelbench.report.rows import Group, Row, count_text, make_groups, make_rows, point_text, trained_on
from accelbench.report.verdict import verdict_line
from accelbench.run.store import RunInfo
from profiling.records.record import Record

WIDTH = 100
ROOMY, ENOUGH = 92, 72
"""Below so many columns the flags stand under the point's name, and below the second the intervals are left out."""
MEANINGS_SHOWN = 2
TAIL_SHOWN = 3
"""Lines of a failed point's output; the report has them all."""


def print_run(info: RunInfo, records: Sequence[Record], console: Console) -> None:
    """Print the run's table, and what its points tell together of cores, strategies and scaling."""
    print_table(info, records, console)
    print_cores(info, records, console)
    if any(record.layout.strategy not in (None, "none") for record in records):
        from accelbench.report.scaling import print_scaling
        from accelbench.report.strategies import print_strategies

        print_strategies(records, console)
        print_scaling(records, console)


def print_table(info: RunInfo, records: Sequence[Record], console: Console) -> None:
    """Print every measured figure with its interval and shares, then what failed and what was skipped, and why."""
    groups = make_groups(make_rows(records))
    console.print()
    console.print(Text.assemble((_machine(info), "bold"), f"  {plain(info.run_id)}"), soft_wrap=True)
    if groups:
        width = min(WIDTH, console.width)
        console.print(_table(groups, width), width=width)
        console.print()
        _print_bounds(groups, console)
        _print_flags(groups, console)
        _print_help(groups, console)
    for status, style in (("failed", "bold red"), ("skipped", "yellow")):
        _print_unmeasured([record for record in records if record.status == status], status, style, console)
    console.print(Text(count_text(info, records), style="bold"))


def _machine(info: RunInfo) -> str:
    environment = info.environment
    cpu = plain(environment.cpu.model or "unknown CPU")
    parts = [f"{cpu}, {environment.cpu.usable} of {environment.cpu.logical} logical CPUs"]
    names = [plain(gpu.name) for gpu in environment.gpus]
    return " · ".join(parts + [f"{names.count(name)}× {name}" for name in dict.fromkeys(names)])


def _table(groups: Sequence[Group], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("benchmark and point", overflow="fold", ratio=1)
    columns = _columns([row for group in groups for row in group.rows], width)
    for column in columns:
        if column == "flags":
            table.add_column(column, max_width=9)
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for group in groups:
        heading = Text.assemble((plain(f"{group.benchmark} {group.device}"), "bold"), f" {group.common}")
        single = len(group.rows) == 1
        if not single:
            table.add_row(heading)
        for row in group.rows:
            name = heading if single else Text(f"  {group.short(row)}")
            _add_details(name, row, with_flags="flags" not in columns)
            table.add_row(name, *(_cell(row, column) for column in columns))
        table.add_section()
    return table


def _columns(rows: Sequence[Row], width: int) -> list[str]:
    """The columns that say something here: a share that no row knows has its reason under the table instead."""
    says = {
        "figure": True,
        "interval": width >= ENOUGH,
        "of peak": any(row.of_peak.value is not None for row in rows),
        "of ceiling": any(row.of_ceiling.value is not None for row in rows),
        "flags": width >= ROOMY and any(row.flags for row in rows),
    }
    return [column for column, something in says.items() if something]


def _cell(row: Row, column: str) -> Text:
    if column == "figure":
        return Text(f"{row.reading.value} {row.reading.unit}")
    if column == "interval":
        return Text(row.reading.interval, style="dim")
    if column == "flags":
        return Text(", ".join(flag.word for flag in row.flags), style="yellow")
    return Text(share(row.of_peak if column == "of peak" else row.of_ceiling))


def _add_details(name: Text, row: Row, with_flags: bool) -> None:
    """Under the name: what a training learnt and is bound by, what a time is made of, each card's rate, the flags."""
    if row.record.data:
        name.append(f"\n  {plain(trained_on(row.record.data))}", style="dim")
    if row.training or row.record.figure == "time" or row.record.layout.devices > 1:
        for key, value in row.record.metrics.items():
            name.append(f"\n  {plain(key)} {metric(value)}", style="dim")
    if row.counts_differ:
        name.append(f"\n  {row.counts_differ}", style="yellow")
    if row.record.profile:
        name.append(f"\n  {verdict_line(row.record.profile)}", style="cyan")
    if with_flags and row.flags:
        name.append(f"\n  {', '.join(flag.word for flag in row.flags)}", style="yellow")


def _print_bounds(groups: Sequence[Group], console: Console) -> None:
    """What the percentages are percentages of, and why some are unknown."""
    rows = [row for group in groups if group.bounded for row in group.rows]
    for name, meaning, shares in (
        ("peak", "the vendor's figure", [row.of_peak for row in rows]),
        ("ceiling", "the best of this run", [row.of_ceiling for row in rows]),
    ):
        bounds = dict.fromkeys(f"{plain(share.of)} {bound(share)}" for share in shares if share.value is not None)
        reasons = dict.fromkeys(plain(share.reason) for share in shares if share.reason is not None)
        if bounds:
            console.print(Text(f"{name}, {meaning}: {'; '.join(bounds)}", style="dim"))
        for reason in reasons:
            console.print(Text(f"{name} {UNKNOWN}: {reason}", style="dim"))


def _print_flags(groups: Sequence[Group], console: Console) -> None:
    """What each flag means, with the points it concerns; the report has what is too long for here."""
    meanings: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        for row in group.rows:
            for flag in row.flags:
                meanings.setdefault(flag.word, {}).setdefault(flag.meaning, []).append(f"{group.benchmark} {row.point}")
    for word, by_meaning in meanings.items():
        shown = list(by_meaning.items())[:MEANINGS_SHOWN]
        for meaning, points in shown:
            where = plain(points[0].strip()) if len(points) == 1 else f"{len(points)} points"
            console.print(Text.assemble((word, "yellow"), (f": {meaning} ({where})", "dim")))
        more = sum(map(len, by_meaning.values())) - sum(len(points) for _, points in shown)
        if more:
            rest = "1 more point" if more == 1 else f"{more} more points"
            console.print(Text.assemble((word, "yellow"), (f": {rest}, each explained in the report", "dim")))


def _print_help(groups: Sequence[Group], console: Console) -> None:
    """What would help, once for each verdict."""
    profiles = [row.record.profile for group in groups for row in group.rows if row.record.profile]
    helps = {p.bottleneck.bound: p.bottleneck.help for p in profiles if p.bottleneck.bound and p.bottleneck.help}
    for bound_by, help_text in helps.items():
        console.print(Text.assemble((bound_by, "cyan"), (f": what would help is {one_line(help_text)}", "dim")))


def _print_unmeasured(records: Sequence[Record], status: str, style: str, console: Console) -> None:
    for record in records:
        name = plain(f"{record.point.benchmark} {record.point.device} {point_text(record)}".strip())
        reason = plain(record.reason or "no reason was recorded")
        console.print(Text.assemble((status, style), f" {name}: {reason}"), soft_wrap=True)
        if status == "failed":
            for line in record.output_tail[-TAIL_SHOWN:]:
                console.print(Text(f"    {plain(line)}", style="dim"), no_wrap=True, overflow="ellipsis")
