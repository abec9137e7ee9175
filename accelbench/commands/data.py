"""Command `data`: list, fetch and verify data sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelbench.commands import console
from accelbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.workloads.data.sources import OwnFolder

EXIT_CORRUPT = 1


@click.group()
def command() -> None:
    """List, fetch and verify the data sets of training workloads."""


@command.command("list")
def list_sets() -> None:
    """List the data sets with size, licence and local state."""
    from accelbench.workloads.data.fetch import state
    from accelbench.workloads.data.sources import OWN_FOLDERS, SOURCES

    output = console()
    for source in SOURCES.values():
        size = f"{source.size / 1e6:,.1f} MB" if source.size else "size unknown"
        here = state(source, read=False)
        without = "" if here.word == "complete" else f"; without it: {source.offline}"
        _print_entry(output, source.name, f"{source.title}; {size}; {source.licence}", f"{here.detail}{without}")
    for own in OWN_FOLDERS.values():
        what, here_or_not = f"your own images: {own.layout}", f"{_where(own)}; without it: {own.offline}"
        _print_entry(output, own.name, what, here_or_not)


def _print_entry(output: Console, name: str, what: str, here: str) -> None:
    from rich.text import Text

    output.print(Text.assemble((f"{name:9}", "bold"), f"{what}\n{'':9}", (here, "dim")), soft_wrap=True)


def _where(own: OwnFolder) -> str:
    from accelbench.workloads.data import DataError

    try:
        return str(own.path) if own.path.is_dir() else f"missing: put the images into {own.path}"
    except (DataError, OSError) as error:
        return str(error)


@command.command("fetch")
@click.argument("name")
@click.option(
    "--from",
    "given",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Local file, or folder with the files, to use instead of a download; may be repeated.",
)
def fetch_set(name: str, given: tuple[Path, ...]) -> None:
    """Download a data set and verify its SHA-256. Measurements never use the network.

    An interrupted download is resumed. Data is stored in $ACCELBENCH_DATA, by default in the user's cache folder.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from accelbench.output.console import say
    from accelbench.workloads.data.fetch import fetch

    output = console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=output,
        transient=True,
        disable=not output.is_terminal,
    )
    tasks = {}

    def show(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, completed=done)
        bar.update(tasks[what], completed=done, total=total)

    with _data_error_as_user_error(), bar:
        path = fetch(name, given, show)
    say(f"{name} is in {path}")


@command.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def verify_sets(names: tuple[str, ...]) -> int:
    """Verify the fetched data sets, or the named ones: list corrupt files and files that do not belong to a set.

    Every byte is read, including kept archives, which have published checksums. Exit status 1 for any problem.
    """
    from rich.text import Text

    from accelbench.workloads.data.fetch import find, state
    from accelbench.workloads.data.sources import SOURCES

    with _data_error_as_user_error():
        sources = [find(name) for name in names] if names else list(SOURCES.values())
    output, failed = console(), False
    for source in sources:
        found = state(source)
        # A missing data set is an error only if it was named.
        failed |= found.word != "complete" and (found.word != "absent" or bool(names))
        colour = {"complete": "green", "extended": "yellow", "absent": "dim"}.get(found.word, "bold red")
        output.print(Text.assemble(f"{source.name:6} ", (found.word, colour), f": {found.detail}"), soft_wrap=True)
    return EXIT_CORRUPT if failed else 0


@contextmanager
def _data_error_as_user_error() -> Iterator[None]:
    """Convert `DataError` to `UserError`."""
    from accelbench.workloads.data import DataError

    try:
        yield
    except DataError as error:
        raise UserError(str(error)) from None
