"""Command `resume`: continue an interrupted run on the machine that started it."""

from __future__ import annotations

import os

import click

from accelbench.commands import (
    FORMAT_OPTION,
    QUIET_OPTION,
    TRUSTED_NETWORK_OPTION,
    VERBOSE_OPTION,
    complete_run,
    console,
    find_device,
    print_document,
)
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat


@click.command()
@click.argument("run", metavar="[RUN]", default="latest", shell_complete=complete_run)
@click.option("--failed", is_flag=True, help="Also repeat the points that failed or were skipped.")
@TRUSTED_NETWORK_OPTION
@VERBOSE_OPTION
@QUIET_OPTION
@FORMAT_OPTION
def command(run: str, failed: bool, trusted_network: bool, verbose: bool, quiet: bool, form: DocumentFormat) -> int:
    """Continue an interrupted run, by default the latest: measure only the missing points."""
    from accelbench.environment.differences import same_machine
    from accelbench.execution.cluster import find_cluster
    from accelbench.profiling.machine.environment.collect import collect
    from accelbench.results.find_run import open_directory
    from accelbench.session import complete, require_trace_packages, serve

    cluster = find_cluster(os.environ)
    if cluster and cluster.rank > 0:
        return serve(cluster)
    to = console(stderr=form != "table", verbose=verbose, quiet=quiet)
    store = open_directory(run)
    store.lock()
    info = store.info()
    find_device(info.device)
    if not same_machine(info.environment, collect()):
        raise UserError(f"{store.path} was measured on another machine: resume it there, or start a new run here")
    require_trace_packages(info.settings.trace, info.plan)
    if trusted_network != info.settings.trusted_network:  # a stored file cannot trust a network for its reader
        settings = info.settings.model_copy(update={"trusted_network": trusted_network})
        store.write_info(info.model_copy(update={"settings": settings}))
    for reason in store.set_corrupt_lines_aside():
        to.print(f"moved to records.jsonl.damaged, and measured again: {reason}", style="yellow")
    if not failed and not store.remaining_runs(store.lines()):
        to.print(f"nothing is missing in {store.path}")
    status = complete(store, to, cluster, again=("failed", "skipped") if failed else ())
    print_document(store, "resume", form)
    return status
