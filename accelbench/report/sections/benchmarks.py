"""Section of the benchmarks: every result with its interval and shares; on the page also plots and profiles."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.console import Group as Stacked
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench.export.terminal import WIDTH, new_table
from accelbench.output.console import HangingText, PlainConsole
from accelbench.output.format import bound, digits, metric_texts, quality_in_short, seconds, share
from accelbench.report.bottleneck_text import bottleneck_in_short, bottleneck_line, bottleneck_text, shares_text
from accelbench.report.causes import NOISY, NOISY_MARK
from accelbench.report.class_quality import MOST_COLUMNS, by_class, lowest_recall
from accelbench.report.rows import Group, Row, each_at_most, shell_command, trained_on
from accelbench.report.samples_plot import samples
from accelbench.report.section import InPage, Run, Section

if TYPE_CHECKING:
    from markupsafe import Markup

    from accelbench.profiling.records.record import Record
    from accelbench.report.profile import ProfiledRow

ROWS_IN_TERMINAL = 400
"""Maximum number of rows on the terminal, distributed over the benchmarks."""
SAMPLES_DRAWN, CURVES_DRAWN = 40, 24
"""Maximum numbers of rows of a benchmark with plots of samples, and with training curves and qualities by class, which
limit the page's size."""
FLAMES_DRAWN = 3
"""Maximum number of profiled rows of a run with flame graphs in the page; more are only linked."""
CURVES_OPEN = 2
"""Maximum number of training curves that are not collapsed."""
ONE_ONLY = "the interval does not include the spread between processes (use --rounds 5)"
ROOMY = 92
"""Minimum terminal width for a column of flags; otherwise they are below the point's name."""


@dataclass(frozen=True)
class Article:
    """Part of the page of one benchmark."""

    group: Group
    slug: str
    rows: tuple[Row, ...]
    """Rows shown on the page."""
    sweep: Markup | None
    """Plot of the results against a swept size; None without a size axis."""
    samples: Markup
    samples_of: int
    """Number of rows with drawn samples."""
    curves: tuple[tuple[Row, Markup], ...]
    classifiers: tuple[Row, ...]
    """Rows with a confusion matrix, or with the reason why there is none."""
    profiles: tuple[ProfiledRow, ...]
    """Profiles of the profiled rows."""
    notes: tuple[str, ...]
    """Reasons why a share is unknown."""


def _content(groups: Sequence[Group], run: Run) -> Mapping[str, Any]:
    return {
        "CURVES_OPEN": CURVES_OPEN,
        "MOST_COLUMNS": MOST_COLUMNS,
        "by_class": by_class,
        "articles": [_article(group, f"benchmark-{number}", run) for number, group in enumerate(groups, start=1)],
        "command": lambda record: shell_command(record, run.info.settings),
        "metrics_by_kind": metrics_by_kind,
        "shares_text": shares_text,
        "details_of": lambda row: list(_all_details(row)),
        "bottleneck_text": bottleneck_text,
    }


def _all_details(row: Row) -> Iterator[str]:
    """Yield the data, the times, the metrics and the CPUs of a row as text."""
    record, timing = row.record, row.record.timing
    assert timing is not None
    if record.data:
        yield trained_on(record.data)
    if timing.steady:
        yield f"step: mean {seconds(timing.steady.mean)}, median {seconds(timing.summary.median)}"
    elif record.figure != "time":
        yield f"{seconds(timing.summary.median)} per execution"
    if timing.batch:
        yield f"{seconds(timing.batch)} back to back"
    headlines = {quality.name for quality in record.qualities if quality.headline}
    for name, words in metric_texts(record).items():
        if not row.training or name in headlines:
            yield f"{name.replace('_', ' ')} {words}"
    if row.pinned_to:
        yield f"on CPU {row.pinned_to}"
    if row.training and row.intensity:
        yield f"{digits(row.intensity)} FLOP/byte"
    yield from filter(None, (row.few_clean, row.counts_differ))


def metrics_by_kind(record: Record) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return every metric of a training workload as text, grouped into quality, time and model."""
    kinds: dict[str, list[tuple[str, str]]] = {"Quality": [], "Time": [], "Model": []}
    qualities = {quality.name for quality in record.qualities}
    for name, words in metric_texts(record).items():
        kind = "Quality" if name in qualities else "Time" if record.metrics[name].unit == "s" else "Model"
        kinds[kind].append((name, words))
    return [(kind, facts) for kind, facts in kinds.items() if facts]


def _article(group: Group, slug: str, run: Run) -> Article:
    rows = group.rows[: run.rows_in_page]
    numbered = list(enumerate(rows, start=1))
    curves = [(row, n) for n, row in numbered if row.record.curves][:CURVES_DRAWN]
    profiles = [_profiled(row, f"{slug}-profile-{n}", run) for n, row in numbered if row.record.profile]
    drawn = sorted(heapq.nlargest(SAMPLES_DRAWN, range(len(rows)), key=lambda n: _uncertainty(rows[n])))
    drawings = [(row, _curves(row, f"{slug}-curves-{n}")) for row, n in curves]
    return Article(
        group,
        slug,
        rows,
        _sweep(group, run, f"{slug}-sweep") if group.size_axis else None,
        samples(group, [rows[n] for n in drawn], f"{slug}-samples"),
        len(drawn),
        tuple((row, drawing) for row, drawing in drawings if drawing is not None),
        tuple(row for row in rows if row.record.confusion)[:CURVES_DRAWN],
        tuple(found for found in profiles if found is not None),
        tuple(_notes(group)),
    )


def _profiled(row: Row, slug: str, run: Run) -> ProfiledRow | None:
    from accelbench.report.profile import profiled

    few = sum(each.record.profile is not None for each in run.rows) <= FLAMES_DRAWN
    return profiled(row, slug, run.info.run_id, run.store.path if run.store and few else None)


def _curves(row: Row, name: str) -> Markup | None:
    from accelbench.report.curves_plot import training_curves

    return training_curves(row.record, name)


def _sweep(group: Group, run: Run, name: str) -> Markup | None:
    from accelbench.report.sweep_plot import sweep

    return sweep(group, run.info.environment, name)


def _uncertainty(row: Row) -> float:
    """Return the relative width of the interval of a row's result."""
    execution = row.record.timing.execution if row.record.timing else None
    return (execution.high - execution.low) / execution.seconds if execution else 0.0


def _notes(group: Group) -> Iterable[str]:
    if group.bounded:
        for name, shares in (
            ("vendor's peak", [row.of_peak for row in group.rows]),
            ("measured ceiling", [row.of_ceiling for row in group.rows]),
        ):
            unknown = [share.reason for share in shares if share.reason is not None and share.shown is None]
            if reasons := dict.fromkeys(unknown):
                yield f"Share of the {name} unknown: {'; '.join(reasons)}."


def _print(groups: Sequence[Group], console: PlainConsole) -> None:
    width = min(WIDTH, console.width)
    console.print(_table(groups, width, console.verbose), width=width)
    console.print()
    _print_bounds(groups, console, console.verbose)


def _table(groups: Sequence[Group], width: int, everything: bool) -> Table:
    table = new_table("benchmark and point")
    table.columns[0].ratio = 1
    columns = _columns([row for group in groups for row in group.rows], width)
    noisy = any(row.noisy for group in groups for row in group.rows)
    for column in columns:
        if column == "flags":
            table.add_column(column, max_width=9 + max(0, width - ROOMY))
        else:
            marked = f" ({NOISY_MARK} noisy)" if noisy and column == "result" else ""
            table.add_column(column + marked, justify="right", no_wrap=True)
    most = each_at_most((len(group.rows) for group in groups), ROWS_IN_TERMINAL)
    for group in groups:
        heading = Text.assemble((f"{group.benchmark} {group.device}", "bold"), f" {group.common}")
        single = len(group.rows) == 1
        if not single:
            table.add_row(HangingText(heading, rest=4))
        for row in group.rows[:most]:
            name = HangingText(heading, rest=4) if single else HangingText(Text(group.short(row)), 2, 4)
            lines = _below(row, "flags" not in columns, everything)
            below = [Padding(Text(text, style), (0, 0, 0, 2 if single else 4)) for text, style in lines]
            table.add_row(Stacked(name, *below), *(_cell(row, column) for column in columns))
        if len(group.rows) > most:
            table.add_row(Text(f"  and {len(group.rows) - most:,} more points, in records.csv", style="dim"))
        table.add_section()
    return table


def _columns(rows: Sequence[Row], width: int) -> list[str]:
    """Return the columns of the table for a terminal of that width; columns without any known value are omitted."""
    shown = {
        "result": True,
        "interval": any(row.reading.interval for row in rows),
        "of peak": any(row.of_peak.value is not None for row in rows),
        "of ceiling": any(row.of_ceiling.shown is not None for row in rows),
        "flags": width >= ROOMY and any(_words(row) for row in rows),
    }
    return [column for column, is_shown in shown.items() if is_shown]


def _cell(row: Row, column: str) -> Text:
    if column == "result":
        return Text(NOISY_MARK * row.noisy + row.reading.quantity)
    if column == "interval":
        return Text(row.reading.interval, style="dim")
    if column == "flags":
        return Text(_words(row), style="yellow")
    return Text(share(row.of_peak if column == "of peak" else row.of_ceiling))


def _below(row: Row, with_flags: bool, everything: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines below the row's name with their styles; `everything` adds all metrics."""
    yield from _details(row, everything)
    if with_flags and (words := _words(row)):
        yield words, "yellow"


def _words(row: Row) -> str:
    """Return the row's flags except `noisy`, which the result's mark stands for."""
    return ", ".join(flag.word for flag in row.flags if flag.word != NOISY)


def _details(row: Row, everything: bool) -> Iterator[tuple[str, str]]:
    """Yield quality, data, metrics and bottleneck of the row as lines with their styles."""
    record = row.record
    short = row.training and not everything
    if short:
        yield in_short(row), "cyan"
        if record.profile and (apart := record.profile.bottleneck.apart_text):
            yield f"doubtful: {apart}", "yellow"
    elif record.data:
        yield trained_on(record.data), "dim"
    if not short and record.confusion and (words := record.confusion.reason or lowest_recall(record.confusion)):
        yield f"by class: {words}", "dim"
    if not short and (row.training or record.figure == "time" or record.layout.devices > 1):
        for key, words in metric_texts(record).items():
            yield f"{key} {words}", "dim"
    if row.counts_differ:
        yield row.counts_differ, "yellow"
    if row.reading.repetitions:
        yield row.reading.repetitions, "dim"
    if row.few_clean:
        yield row.few_clean, "dim"
    if record.profile and not short:
        yield bottleneck_line(record.profile), "cyan"


def in_short(row: Row) -> str:
    """Return quality, bottleneck and a note on synthetic data.

    An example is `accuracy 0.951 (0.941–0.961) · lowest recall 0.780 (sitting) · device-bound 77 %`.
    """
    record = row.record
    words = [
        f"{quality.name.removeprefix('test_').replace('_', ' ')} {quality_in_short(record, quality)}"
        for quality in record.qualities
        if quality.headline and quality.name in record.metrics
    ]
    words += filter(None, [lowest_recall(record.confusion) if record.confusion else ""])
    words += [bottleneck_in_short(record.profile)] if record.profile else []
    words += ["synthetic data"] if record.data and record.data.synthetic else []
    return " · ".join(words) or "no quality metric"


def _print_bounds(groups: Sequence[Group], console: Console, everything: bool) -> None:
    """Print the peaks and ceilings that the percentages refer to, and the reasons for unknown shares."""
    rows = [row for group in groups if group.bounded for row in group.rows]
    for name, meaning, shares in (
        ("peak", "by the vendor", [row.of_peak for row in rows]),
        ("ceiling", "highest measured rate", [row.of_ceiling for row in rows]),
    ):
        bounds = dict.fromkeys(f"{share.of} {bound(share)}" for share in shares if share.value is not None)
        doubtful = dict.fromkeys(f"{share.of} {bound(share)}" for share in shares if share.doubtful is not None)
        reasons = dict.fromkeys(share.reason for share in shares if share.reason is not None and share.shown is None)
        if not bounds and name == "peak" and not everything:
            continue
        if bounds:
            console.print(Text(f"{name}, {meaning}: {'; '.join(bounds)}", style="dim"))
        if doubtful:
            console.print(Text(f"{name}, noisy (shares ≈ are doubtful): {'; '.join(doubtful)}", style="dim"))
        for reason in reasons:
            console.print(Text(f"% of {name} unknown: {reason}", style="dim"))


def _processes(run: Run) -> str:
    """Return a note on the numbers of repetitions; empty if nothing was timed."""
    counted = [(row.record.point.benchmark, len(row.record.rounds) or 1) for row in run.rows]
    single = list(dict.fromkeys(name for name, count in counted if count == 1))
    several = sorted({count for _, count in counted if count > 1})
    if not several:
        return f"single process per result: {ONE_ONLY}" if single else ""
    counts = f"{several[0]}" if len(several) == 1 else f"{several[0]}–{several[-1]}"
    line = f"results and intervals are over {counts} repetitions, each in a new process"
    return f"{line}; single process: {', '.join(single)}" if single else line


section = Section(
    find=lambda run: run.groups,
    page=InPage("benchmarks.html", "benchmarks", "Benchmarks", _content),
    terminal=_print,
)
rounds = Section(
    find=_processes,
    page=InPage('<p class="quiet">{{ found[0]|upper }}{{ found[1:] }}.</p>\n'),
    terminal=lambda line, console: console.print(Text(line, style="dim")),
)
