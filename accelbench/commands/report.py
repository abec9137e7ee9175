"""Command `report`: print a stored run and rebuild its report files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from accelbench.commands import FORMAT_OPTION, PRICE_OPTION, VERBOSE_OPTION, complete_run, console
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=complete_run)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Page for several runs; their records are written to FILE.csv. Default: a new page under reports.",
)
@PRICE_OPTION
@click.option("--quiet", is_flag=True, help="Only write the files; print no table or document.")
@VERBOSE_OPTION
@FORMAT_OPTION
def command(
    runs: tuple[str, ...],
    out: Path | None,
    given_prices: tuple[str, ...],
    quiet: bool,
    verbose: bool,
    form: DocumentFormat,
) -> None:
    """Print the table of a run (default: the latest) and rebuild its report.html, CSV and Parquet.

    For several runs, print the differences of their environments and the runs side by side, and write a joint page.
    """
    from accelbench.output.console import say
    from accelbench.report import refuse_place, write_joined_report, write_report
    from accelbench.report.joined import read_runs
    from accelbench.report.prices import parse_prices
    from accelbench.report.run_document import document_of_runs
    from accelbench.report.sections.costs import find_costs, with_prices
    from accelbench.report.terminal import print_runs
    from accelbench.results.find_run import open_run

    prices = parse_prices(given_prices)
    given = [(run, open_run(run)) for run in runs or ["latest"]]
    stores = [store for _, store in given]
    if out and len(stores) == 1:
        raise UserError("--out needs several runs: the report of one run is in its directory")
    if out:
        refuse_place(out)
    for_programs = form != "table" and not quiet
    to = console(stderr=for_programs, verbose=verbose, quiet=quiet)
    joined = with_prices(read_runs(stores), prices, given)
    print_runs(joined, to)
    if len(stores) == 1:
        if stores[0].info().status != "finished" and stores[0].remaining_runs(stores[0].lines()):
            to.print(f"points are missing: continue with 'accelbench resume {stores[0].path}'")
        say(f"report {write_report(stores[0], joined.runs[0], joined.prices)}", stderr=for_programs)
    else:
        page, table = write_joined_report(joined, out)
        say(f"report {page}\nrecords {table}", stderr=for_programs)
    if for_programs:
        document = document_of_runs(joined.runs, "report")
        if costs := find_costs(joined):
            document = replace(document, facts={**document.facts, "costs": costs.facts()})
        say(document.write(form))
