"""The table that ends a run on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.report.figures import UNKNOWN, bound, metric, plain, share
from accelbench.report.rows import Group, Row, count_text, make_groups, make_rows, point_text
from accelbench.store import RunInfo
from profiling.record import Record

WIDTH = 100
TAIL_SHOWN = 3
"""Lines of a failed point's output; the report has them all."""


def print_table(info: RunInfo, records: Sequence[Record], console: Console) -> None:
    """Print every measured figure with its interval and shares, then what failed and what was skipped, and why."""
    groups = make_groups(make_rows(records))
    console.print()
    console.print(Text.assemble((_machine(info), "bold"), f"  {plain(info.run_id)}"), soft_wrap=True)
    if groups:
        console.print(_table(groups), width=min(WIDTH, console.width))
        console.print()
        _print_bounds(groups, console)
        _print_flags(groups, console)
    for status, style in (("failed", "bold red"), ("skipped", "yellow")):
        _print_unmeasured([record for record in records if record.status == status], status, style, console)
    console.print(Text(count_text(info, records), style="bold"))


def _machine(info: RunInfo) -> str:
    environment = info.environment
    cpu = plain(environment.cpu.model or "unknown CPU")
    parts = [f"{cpu}, {environment.cpu.usable} of {environment.cpu.logical} logical CPUs"]
    names = [plain(gpu.name) for gpu in environment.gpus]
    return " · ".join(parts + [f"{names.count(name)}× {name}" for name in dict.fromkeys(names)])


def _table(groups: Sequence[Group]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("benchmark and point", overflow="fold", ratio=1)
    table.add_column("figure", justify="right", no_wrap=True)
    table.add_column("interval", justify="right", no_wrap=True)
    table.add_column("of peak", justify="right", no_wrap=True)
    table.add_column("of ceiling", justify="right", no_wrap=True)
    table.add_column("flags", max_width=9)
    for group in groups:
        heading = Text.assemble((plain(f"{group.benchmark} {group.device}"), "bold"), f" {group.common}")
        single = len(group.rows) == 1
        if not single:
            table.add_row(heading)
        for row in group.rows:
            table.add_row(
                _with_metrics(heading if single else Text(f"  {group.short(row)}"), row),
                Text(f"{row.reading.value} {row.reading.unit}"),
                Text(row.reading.interval, style="dim"),
                Text(share(row.of_peak)),
                Text(share(row.of_ceiling)),
                Text(", ".join(flag.word for flag in row.flags), style="yellow"),
            )
        table.add_section()
    return table


def _with_metrics(name: Text, row: Row) -> Text:
    """A training experiment's speed means little without what it learnt, nor a time without what it is made of."""
    if row.training or row.record.figure == "time":
        for key, value in row.record.metrics.items():
            name.append(f"\n  {plain(key)} {metric(value)}", style="dim")
    return name


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
    meanings: dict[str, dict[str, list[str]]] = {}
    for group in groups:
        for row in group.rows:
            for flag in row.flags:
                meanings.setdefault(flag.word, {}).setdefault(flag.meaning, []).append(f"{group.benchmark} {row.point}")
    for word, by_meaning in meanings.items():
        for meaning, points in by_meaning.items():
            where = plain(points[0].strip()) if len(points) == 1 else f"{len(points)} points"
            console.print(Text.assemble((word, "yellow"), (f": {meaning} ({where})", "dim")))


def _print_unmeasured(records: Sequence[Record], status: str, style: str, console: Console) -> None:
    for record in records:
        name = plain(f"{record.benchmark} {record.device} {point_text(record)}".strip())
        reason = plain(record.reason or "no reason was recorded")
        console.print(Text.assemble((status, style), f" {name}: {reason}"), soft_wrap=True)
        if status == "failed":
            for line in record.output_tail[-TAIL_SHOWN:]:
                console.print(Text(f"    {plain(line)}", style="dim"), no_wrap=True, overflow="ellipsis")
