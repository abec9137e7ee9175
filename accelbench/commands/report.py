"""The command `report`."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import VERBOSE_OPTION, console
from accelbench.errors import UserError


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The page of several runs; their records go beside it as FILE.csv. Default: one under reports.",
)
@click.option("--quiet", is_flag=True, help="Write the files only; do not print the table.")
@VERBOSE_OPTION
def command(runs: tuple[str, ...], out: Path | None, quiet: bool, verbose: bool) -> None:
    """Print a run's table again and rebuild its report.html, CSV and Parquet from the stored records.

    Of several runs, say what differs between them, show them side by side, and draw them together in a page of its own.
    """
    from accelbench.find_run import open_run
    from accelbench.plain_console import say
    from accelbench.report import refuse_place, write_joined_report, write_report
    from accelbench.report.joined import read_runs
    from accelbench.report.section import Run
    from accelbench.report.terminal import print_run, print_runs

    stores = [open_run(run) for run in runs]
    if len(stores) == 1:
        if out:
            raise UserError("--out is for the page of several runs: that of one run stays in its folder")
        found = Run.of(stores[0])
        if not quiet:
            print_run(found, console(verbose=verbose))
        say(f"report {write_report(stores[0], found)}")
        return
    if out:
        refuse_place(out)
    joined = read_runs(stores)
    if not quiet:
        print_runs(joined, console(verbose=verbose))
    page, table = write_joined_report(joined, out)
    say(f"report {page}")
    say(f"records {table}")
