"""The command `contribute`."""

from __future__ import annotations

import click

from accelbench.commands import complete_run
from accelbench.errors import UserError


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
def command(run: str) -> None:
    """Keep the figures of a run as references: reports of later runs on such a machine put theirs beside it.

    They go into references.toml beside the run, in the form of accelbench's own table of what others measured. A figure
    that something disturbed is left out.
    """
    from accelbench.find_run import open_directory
    from accelbench.format import counted
    from accelbench.plain_console import say
    from accelbench.report.contribute import contribute
    from accelbench.report.stored_run import Run

    store = open_directory(run)
    path, count = contribute(Run.of(store), store.path.parent)
    if not count:
        raise UserError(f"{store.path} has no rate that nothing disturbed: {path} has none of it")
    say(f"{path} has {counted(count, 'figure')} of {store.path.name}")
