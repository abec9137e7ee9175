"""The command `report`."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import FORMAT_OPTION, VERBOSE_OPTION, complete_run, console
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The page of several runs; their records go beside it as FILE.csv. Default: one under reports.",
)
@click.option("--quiet", is_flag=True, help="Write the files only; print no table, in whatever format.")
@VERBOSE_OPTION
@FORMAT_OPTION
def command(runs: tuple[str, ...], out: Path | None, quiet: bool, verbose: bool, form: DocumentFormat) -> None:
    """Print a run's table again and rebuild its report.html, CSV and Parquet from the stored records.

    Of several runs, say what differs between them, show them side by side, and draw them together in a page of its own.
    """
    from accelbench.output.console import say
    from accelbench.report import refuse_place, write_joined_report, write_report
    from accelbench.report.joined import read_runs
    from accelbench.report.run_document import document_of_runs
    from accelbench.report.terminal import print_run, print_runs
    from accelbench.results.find_run import open_run

    stores = [open_run(run) for run in runs]
    if out and len(stores) == 1:
        raise UserError("--out is for the page of several runs: that of one run stays in its folder")
    if out:
        refuse_place(out)
    for_programs = form != "table" and not quiet
    to = console(stderr=for_programs, verbose=verbose, quiet=quiet)
    joined = read_runs(stores)
    if len(stores) == 1:
        print_run(joined.runs[0], to)
        say(f"report {write_report(stores[0], joined.runs[0])}", stderr=for_programs)
    else:
        print_runs(joined, to)
        page, table = write_joined_report(joined, out)
        say(f"report {page}\nrecords {table}", stderr=for_programs)
    if for_programs:
        say(document_of_runs(joined.runs, "report").write(form))
