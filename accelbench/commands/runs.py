"""The command `runs`."""

from __future__ import annotations

import click

from accelbench.commands import console
from accelbench.errors import UserError


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--delete", is_flag=True, help="Delete these runs, after a question.")
@click.option("--yes", is_flag=True, help="Delete without a question.")
def command(words: tuple[str, ...], delete: bool, yes: bool) -> None:
    """List the stored runs, the newest first, and write runs/index.html; with WORDs those that all of them are in.

    A word is looked for in a run's id, name, note and tags, and in its suite, device and machine.
    """
    import shutil

    from accelbench.find_run import stored_runs
    from accelbench.plain_console import say
    from accelbench.report.index import list_runs, print_index, write_index
    from accelbench.run.store import RUNS

    if delete and not words:
        raise UserError("--delete needs words that the runs to delete are found by")
    entries, damaged = list_runs(stored_runs(RUNS), words)
    for sentence in damaged:
        say(f"left out: {sentence}", stderr=True)
    if not entries:
        found = f"no run under {RUNS} has {' and '.join(words)} in its words" if words else f"no run is under {RUNS}"
        raise UserError(f"{found}: 'accelbench run' makes one")
    print_index(entries, console())
    if delete:
        count = f"{len(entries)} run{'s' * (len(entries) != 1)}"
        if not yes and not click.confirm(f"delete {count} for good?"):
            return
        for entry in entries:
            store = entry.run.store
            assert store is not None
            store.lock()  # a run that goes on is left alone
            shutil.rmtree(store.path)
        say(f"deleted {count}")
        entries, _ = list_runs(stored_runs(RUNS), ())
    elif words:
        entries, _ = list_runs(stored_runs(RUNS), ())
    say(f"page {write_index(entries, RUNS)}")
