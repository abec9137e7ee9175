"""The benchmarks: every measured figure with its interval and shares, and in the page its drawings and its profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.format import UNKNOWN, bound, plain, share, told_metrics
from accelbench.report.rows import Group, Row, reproduce, trained_on
from accelbench.report.section import InPage, InTerminal, Run, Section
from accelbench.report.verdict import shares_text, verdict, verdict_line

if TYPE_CHECKING:
    from markupsafe import Markup

    from accelbench.report.profile import Profiled

WIDTH = 100
ROOMY, ENOUGH = 92, 72
"""The least columns of a terminal for a column of flags, which else stand under the point's name, and for intervals."""


@dataclass(frozen=True)
class Article:
    """A benchmark's part of the page: its rows and its drawings."""

    group: Group
    slug: str
    sweep: Markup | None
    """The figure against the size that the points sweep, where they do."""
    samples: Markup
    curves: tuple[tuple[Row, Markup], ...]
    profiles: tuple[Profiled, ...]
    """The profiles of the rows that were profiled."""
    notes: tuple[str, ...]
    """The reasons why a share is unknown."""


def _content(groups: Sequence[Group], run: Run) -> Mapping[str, Any]:
    return {
        "articles": [_article(group, f"benchmark-{number}", run) for number, group in enumerate(groups, start=1)],
        "command": lambda record: reproduce(record, run.info.settings),
        "shares_text": shares_text,
        "told_metrics": told_metrics,
        "trained_on": trained_on,
        "verdict": verdict,
    }


def _article(group: Group, slug: str, run: Run) -> Article:
    from accelbench.report.plots import samples, training_curves
    from accelbench.report.profile import profiled
    from accelbench.report.sweep_plot import sweep

    numbered = list(enumerate(group.rows, start=1))
    curves = [(row, training_curves(row.record, f"{slug}-curves-{n}")) for n, row in numbered]
    profiles = [profiled(row, f"{slug}-profile-{n}", run.info.run_id) for n, row in numbered]
    return Article(
        group,
        slug,
        sweep(group, run.info.environment, f"{slug}-sweep"),
        samples(group, f"{slug}-samples"),
        tuple((row, drawing) for row, drawing in curves if drawing is not None),
        tuple(found for found in profiles if found is not None),
        tuple(_notes(group)),
    )


def _notes(group: Group) -> Iterable[str]:
    if group.bounded:
        for name, shares in (
            ("vendor's peak", [row.of_peak for row in group.rows]),
            ("measured ceiling", [row.of_ceiling for row in group.rows]),
        ):
            for reason in dict.fromkeys(share.reason for share in shares if share.reason is not None):
                yield f"Share of the {name} unknown: {plain(reason)}."


def _print(groups: Sequence[Group], console: Console) -> None:
    width = min(WIDTH, console.width)
    console.print(_table(groups, width), width=width)
    console.print()
    _print_bounds(groups, console)


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
    """Return the columns that say something here: a share that no row knows has its reason under the table instead."""
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
    """Add, under the name, what a training learnt and is bound by, what a time is made of, each card's rate, flags."""
    if row.record.data:
        name.append(f"\n  {plain(trained_on(row.record.data))}", style="dim")
    if row.training or row.record.figure == "time" or row.record.layout.devices > 1:
        for key, words in told_metrics(row.record).items():
            name.append(f"\n  {plain(key)} {words}", style="dim")
    if row.counts_differ:
        name.append(f"\n  {row.counts_differ}", style="yellow")
    if row.record.profile:
        name.append(f"\n  {verdict_line(row.record.profile)}", style="cyan")
    if with_flags and row.flags:
        name.append(f"\n  {', '.join(flag.word for flag in row.flags)}", style="yellow")


def _print_bounds(groups: Sequence[Group], console: Console) -> None:
    """Print what the percentages are percentages of, and why some are unknown."""
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


section = Section(
    find=lambda run: run.groups,
    page=InPage(60, "benchmarks", "Benchmarks", _content),
    terminal=InTerminal(10, _print),
)
