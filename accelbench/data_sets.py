"""What the commands `data list`, `data fetch` and `data verify` show and do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from accelbench.errors import UserError
from workloads.data import DataError
from workloads.data.fetch import fetch, find, state
from workloads.data.sources import OWN_FOLDERS, SOURCES, OwnFolder


def render_data(console: Console) -> None:
    """Print every data set that can be fetched or put here, whether it is here, and what serves without it."""
    for source in SOURCES.values():
        size = f"{source.size / 1e6:,.1f} MB" if source.size else "size not stated"
        here = state(source, read=False)
        without = "" if here.word == "whole" else f"; without it: {source.offline}"
        _entry(console, source.name, f"{source.title}; {size}; {source.licence}", f"{here.detail}{without}")
    for own in OWN_FOLDERS.values():
        _entry(console, own.name, f"images of your own: {own.layout}", f"{_where(own)}; without it: {own.offline}")


def _entry(console: Console, name: str, what: str, here: str) -> None:
    console.print(f"[bold]{name:9}[/bold]{escape(what)}\n{'':9}[dim]{escape(here)}[/dim]", soft_wrap=True)


def _where(own: OwnFolder) -> str:
    try:
        return str(own.path) if own.path.is_dir() else f"not here: put them into {own.path}"
    except (DataError, OSError) as error:
        return str(error)


def fetch_data(name: str, given: Sequence[Path], console: Console) -> Path:
    """Fetch a data set, with a progress bar on a terminal; `UserError` if it cannot be had."""
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    tasks = {}

    def progress(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(escape(what), completed=done)
        bar.update(tasks[what], completed=done, total=total)

    try:
        with bar:
            return fetch(name, given, progress)
    except DataError as error:
        raise UserError(str(error)) from None


def verify_data(names: Sequence[str], console: Console) -> bool:
    """Read what is here of these sets, or of all, and say what is damaged; whether all of it is whole.

    A set that was named and is not here is not whole; one that was not named need not be here.
    """
    try:
        sources = [find(name) for name in names] if names else list(SOURCES.values())
    except DataError as error:
        raise UserError(str(error)) from None
    good = True
    for source in sources:
        found = state(source)
        good &= found.word == "whole" or (found.word == "absent" and not names)
        colour = {"whole": "green", "absent": "dim"}.get(found.word, "bold red")
        label = "half downloaded" if found.word == "half" else found.word
        console.print(f"{source.name:6} [{colour}]{label}[/]: {escape(found.detail)}", soft_wrap=True)
    return good
