"""Command `report`: print a stored run and rebuild its report files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from accelbench.commands import FORMAT_OPTION, VERBOSE_OPTION, complete_run, console
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
@click.option(
    "--price",
    metavar="2.49/h",
    help="Price of an hour of all devices of a run, for the cost of training: NUMBER/h or NUMBER CURRENCY/h.",
)
@click.option("--quiet", is_flag=True, help="Only write the files; print no table or document.")
@VERBOSE_OPTION
@FORMAT_OPTION
def command(
    runs: tuple[str, ...], out: Path | None, price: str | None, quiet: bool, verbose: bool, form: DocumentFormat
) -> None:
    """Print the table of a run (default: the latest) and rebuild its report.html, CSV and Parquet.

    For several runs, print the differences of their environments and the runs side by side, and write a joint page.
    """
    from accelbench.export.costs import HourlyPrice, cost_facts, cost_table, training_costs
    from accelbench.output.console import say
    from accelbench.report import refuse_place, write_joined_report, write_report
    from accelbench.report.joined import read_runs
    from accelbench.report.run_document import document_of_runs
    from accelbench.report.terminal import print_run, print_runs
    from accelbench.results.find_run import open_run

    hourly = HourlyPrice.parse(price) if price else None
    stores = [open_run(run) for run in runs or ["latest"]]
    if out and len(stores) == 1:
        raise UserError("--out needs several runs: the report of one run is in its directory")
    if out:
        refuse_place(out)
    for_programs = form != "table" and not quiet
    to = console(stderr=for_programs, verbose=verbose, quiet=quiet)
    joined = read_runs(stores)
    costs = training_costs((record for run in joined.runs for record in run.records), hourly) if hourly else []
    if len(stores) == 1:
        print_run(joined.runs[0], to)
        if stores[0].info().status != "finished" and stores[0].remaining_runs(stores[0].lines()):
            to.print(f"points are missing: continue with 'accelbench resume {stores[0].path}'")
        say(f"report {write_report(stores[0], joined.runs[0])}", stderr=for_programs)
    else:
        print_runs(joined, to)
        page, table = write_joined_report(joined, out)
        say(f"report {page}\nrecords {table}", stderr=for_programs)
    if hourly:
        to.print(cost_table(costs, hourly))
    if for_programs:
        document = document_of_runs(joined.runs, "report")
        if hourly:
            document = replace(document, facts={**document.facts, "costs": cost_facts(costs, hourly)})
        say(document.write(form))
