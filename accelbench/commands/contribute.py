"""Command `contribute`: store the results of a run as references."""

from __future__ import annotations

import click

from accelbench.commands import complete_run
from accelbench.errors import UserError


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
def command(run: str) -> None:
    """Store the results of a run as references for later runs on such a machine.

    They are written to references.toml next to the run, in the format of the published references. Noisy results are
    left out.
    """
    from accelbench.output.console import say
    from accelbench.output.format import counted
    from accelbench.references.contribute import contribute, reason_for_none
    from accelbench.results.find_run import open_directory

    store = open_directory(run)
    path, count = contribute(store.info(), store.points(), store.path.parent)
    if not count:
        raise UserError(f"nothing was saved from {store.path}: {reason_for_none(store.info(), store.points())}")
    say(f"{path} has {counted(count, 'result')} of {store.path.name}")
