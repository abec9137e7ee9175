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

    from accelbench.execution.store import RUNS, RunStore
    from accelbench.output.console import say
    from accelbench.output.format import counted
    from accelbench.report.index import has_words, print_index, write_index
    from accelbench.report.run_entries import find_entries

    if delete and not any(word.strip() for word in words):
        raise UserError("--delete needs a WORD that selects the runs to delete")
    entries = find_entries(RUNS)
    for reason in entries.damaged:
        say(reason, stderr=True)
    runs = entries.entries
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
            RunStore(RUNS / run.folder).lock()  # fails for a run in progress
            shutil.rmtree(RUNS / run.folder)
        say(f"deleted {selected}")
        runs = find_entries(RUNS).entries
    say(f"page {write_index(runs, RUNS)}")
