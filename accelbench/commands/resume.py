"""The command `resume`: an interrupted run goes on, on the machine that it was begun on."""

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
    say_for_programs,
)
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--failed", is_flag=True, help="Measure the points that failed or were skipped once more, too.")
@TRUSTED_NETWORK_OPTION
@VERBOSE_OPTION
@QUIET_OPTION
@FORMAT_OPTION
def command(run: str, failed: bool, trusted_network: bool, verbose: bool, quiet: bool, form: DocumentFormat) -> int:
    """Go on with an interrupted run: measure only what is missing."""
    from accelbench.environment.differences import same_machine
    from accelbench.execution.cluster import find_cluster
    from accelbench.profiling.machine.environment.collect import collect
    from accelbench.results.find_run import open_directory
    from accelbench.session import complete, serve

    cluster = find_cluster(os.environ)
    if cluster and cluster.rank > 0:
        return serve(cluster)
    to = console(stderr=form != "table", verbose=verbose, quiet=quiet)
    store = open_directory(run)
    store.lock()
    info = store.info()
    find_device(info.device)
    if not same_machine(info.environment, collect()):
        raise UserError(f"{store.path} was measured on another machine: its figures and this one's do not mix")
    if trusted_network:
        settings = info.settings.model_copy(update={"trusted_network": True})
        store.write_info(info.model_copy(update={"settings": settings}))
    for reason in store.set_damage_aside():
        to.print(f"set aside and measured again: {reason}", style="yellow")
    status = complete(store, to, cluster, again=("failed", "skipped") if failed else ())
    say_for_programs(store, "resume", form)
    return status
