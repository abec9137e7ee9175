"""List of stored runs: the table of `accelbench runs`, and the page `index.html`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from accelbench.errors import DataDamaged, UserError
from accelbench.execution.store import RunStore
from accelbench.export.terminal import new_table
from accelbench.output.atomic_file import write_atomically
from accelbench.report.page import templates
from accelbench.report.stored_run import LIGHT_STYLES, Run


def read_runs(stores: Sequence[RunStore]) -> tuple[list[Run], list[str]]:
    """Return the runs, newest first, and a message for each unreadable one."""
    runs, damaged = [], []
    for store in stores:
        try:
            runs.append(Run.of(store))
        except (DataDamaged, UserError) as error:
            damaged.append(str(error))
    return sorted(runs, key=lambda run: run.info.created, reverse=True), damaged


def has_words(run: Run, words: Sequence[str]) -> bool:
    """Return whether id, label, machine, suite and device of a run contain all words, ignoring case."""
    info = run.info
    text = " ".join([info.run_id, info.label.words, run.machine, run.suite, info.device]).casefold()
    return all(word.casefold() in text for word in words)


def folder_of(run: Run) -> Path:
    """Return the directory that the run was read from."""
    assert run.store is not None
    return run.store.path


def print_index(runs: Sequence[Run], console: Console) -> None:
    """Print a table of the runs: directory, outcome, label, suite, device, time and machine."""
    table = new_table("run", "outcome and machine")
    for run in runs:
        what = Text.assemble(("● ", LIGHT_STYLES[run.light]), run.outcome)
        for line in filter(None, [run.info.label.words, f"{run.suite} on {run.info.device}, {run.created}"]):
            what.append(f"\n{line}")
        what.append(f"\n{run.machine}", style="dim")
        table.add_row(Text(folder_of(run).name, style="bold"), what)
    console.print(table)


def write_index(runs: Sequence[Run], folder: Path) -> Path:
    """Write `index.html` with these runs into the folder, and return its path."""
    environment = templates(Path(__file__).parent)
    page = environment.get_template("index.html").render(runs=[(folder_of(run).name, run) for run in runs])
    return write_atomically(folder / "index.html", lambda path: path.write_text(page, encoding="utf-8"))
