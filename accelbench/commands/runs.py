"""Command `runs`: list, search and delete stored runs."""

from __future__ import annotations

import click

from accelbench.commands import console
from accelbench.errors import UserError


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--delete", is_flag=True, help="Delete these runs (asks for confirmation).")
@click.option("--yes", is_flag=True, help="Delete without confirmation.")
def command(words: tuple[str, ...], delete: bool, yes: bool) -> None:
    """List the stored runs, newest first, and write runs/index.html.

    With WORDs, list only runs that contain all of them in ID, name, note, tags, suite, device or machine.
    """
    import shutil

    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.output.format import counted
    from accelbench.report.index import folder_of, has_words, print_index, read_runs, write_index
    from accelbench.results.find_run import stored_runs

    if delete and not any(word.strip() for word in words):
        raise UserError("--delete needs a WORD that selects the runs to delete")
    runs, damaged = read_runs(stored_runs(RUNS))
    for reason in damaged:
        say(f"left out: {reason}", stderr=True)
    found = [run for run in runs if has_words(run, words)]
    if not found:
        none = f"no run under {RUNS} matches {' and '.join(words)}" if words else f"no run under {RUNS}"
        raise UserError(f"{none}: start one with 'accelbench run'")
    print_index(found, console())
    if delete:
        selected = counted(len(found), "run")
        if not yes and not click.confirm(f"delete {selected} permanently?"):
            return
        for run in found:
            assert run.store is not None
            run.store.lock()  # fails for a run in progress
            shutil.rmtree(folder_of(run))
        say(f"deleted {selected}")
        runs = [run for run in runs if not has_words(run, words)]
    say(f"page {write_index(runs, RUNS)}")
