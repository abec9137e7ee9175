"""The command `report`."""

from __future__ import annotations

import click

from accelbench.commands import console


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--quiet", is_flag=True, help="Write the files only; do not print the table.")
def command(run: str, quiet: bool) -> None:
    """Print a run's table again and rebuild its report.html, CSV and Parquet from the stored records."""
    from accelbench.find_run import open_run
    from accelbench.plain_console import say
    from accelbench.report import write_report
    from accelbench.report.section import Run
    from accelbench.report.terminal import print_run

    store = open_run(run)
    found = Run.of(store)
    if not quiet:
        print_run(found, console())
    say(f"report {write_report(store, found)}")
