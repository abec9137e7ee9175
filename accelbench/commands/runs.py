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

    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.output.format import counted
    from accelbench.report.index import folder_of, has_words, print_index, read_runs, write_index
    from accelbench.results.find_run import stored_runs

    if delete and not any(word.strip() for word in words):
        raise UserError("--delete needs a WORD: the runs with all WORDs are deleted")
    runs, damaged = read_runs(stored_runs(RUNS))
    for sentence in damaged:
        say(f"left out: {sentence}", stderr=True)
    found = [run for run in runs if has_words(run, words)]
    if not found:
        none = f"no run under {RUNS} has {' and '.join(words)} in its words" if words else f"no run is under {RUNS}"
        raise UserError(f"{none}: 'accelbench run' makes one")
    print_index(found, console())
    if delete:
        those = counted(len(found), "run")
        if not yes and not click.confirm(f"delete {those} for good?"):
            return
        for run in found:
            assert run.store is not None
            run.store.lock()  # a run that goes on is left alone
            shutil.rmtree(folder_of(run))
        say(f"deleted {those}")
        runs = [run for run in runs if not has_words(run, words)]
    say(f"page {write_index(runs, RUNS)}")
