"""The command `data`."""

from __future__ import annotations

from pathlib import Path

import click

EXIT_DAMAGED = 1


@click.group()
def data() -> None:
    """List, fetch and verify the data sets that workloads train on."""


@data.command("list")
def data_list() -> None:
    """List the data sets, their licences, and which are here."""
    from rich.console import Console

    from accelbench.data_sets import render_data

    render_data(Console(highlight=False))


@data.command("fetch")
@click.argument("name")
@click.option(
    "--from",
    "given",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Take this file, or what is in this folder, instead of downloading it; may be given for each file of a set.",
)
def data_fetch(name: str, given: tuple[Path, ...]) -> None:
    """Fetch a data set, checked by its SHA-256; measuring itself never uses the network.

    A download that broke off is continued. Data lies in $ACCELBENCH_DATA, else in the user's cache folder.
    """
    from rich.console import Console

    from accelbench.data_sets import fetch_data

    print(f"{name} is at {fetch_data(name, given, Console(highlight=False, stderr=True))}")


@data.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def data_verify(names: tuple[str, ...]) -> int:
    """Read what was fetched, or the named sets, and name what is damaged; exit status 1 if anything is."""
    from rich.console import Console

    from accelbench.data_sets import verify_data

    return 0 if verify_data(names, Console(highlight=False)) else EXIT_DAMAGED
