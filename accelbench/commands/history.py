"""Command `history`: results of stored runs over time."""

from __future__ import annotations

import click

from accelbench.commands import FORMAT_OPTION, console
from accelbench.errors import UserError
from accelbench.export.document import DocumentFormat


@click.command()
@click.argument("words", nargs=-1, metavar="[BENCHMARK | FOLDER]...")
@click.option(
    "--machine", metavar="NAME", help="Only machines with this text in their description, such as a CPU or GPU model."
)
@FORMAT_OPTION
def command(words: tuple[str, ...], machine: str | None, form: DocumentFormat) -> None:
    """Show the points of stored runs over time: run-to-run spread, drifts and changes of speed.

    Each FOLDER is a folder or bundle of runs. Default: runs.
    """
    from pathlib import Path

    from accelbench.execution.store import RUNS
    from accelbench.history.fingerprint import is_called
    from accelbench.history.history_document import document_of_history, print_history
    from accelbench.history.past import read_past
    from accelbench.history.series import series_of
    from accelbench.output.console import say
    from accelbench.pack.read import find_pack
    from accelbench.results.find_run import find_runs, stored_runs

    folders = [word for word in words if Path(word).is_dir() or find_pack(word)]
    benchmarks = [word for word in words if word not in folders]
    stores = [store for folder in folders for store in find_runs(folder)] if folders else stored_runs(RUNS)
    if not stores:
        raise UserError(f"no run under {RUNS}: start one with 'accelbench run'")
    past = read_past(stores)
    machines = {run.machine for run in past.runs}
    wanted = {name for name in machines if machine is None or is_called(name, machine)}
    if machine and not wanted:
        raise UserError(f"no run of a machine {machine!r} (available: {'; '.join(sorted(machines)) or 'none'})")
    series = [one for one in series_of(past.runs) if one.machine in wanted]
    measured = {one.point.benchmark for one in series}
    if unknown := [name for name in benchmarks if name not in measured]:
        available = ", ".join(sorted(measured)) or "none"
        raise UserError(
            f"{', '.join(unknown)}: neither a folder nor a benchmark of these runs (available: {available})"
        )
    selected = [one for one in series if not benchmarks or one.point.benchmark in benchmarks]
    if form == "table":
        print_history(selected, past.passed_over, console())
    else:
        say(document_of_history(selected, past.passed_over).write(form))
