"""All stored runs in one list: the table of `accelbench runs`, and the page `index.html` beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.errors import DataDamaged, UserError
from accelbench.history.fingerprint import fingerprint
from accelbench.report.page import templates
from accelbench.report.stored_run import Run
from accelbench.run.store import RunStore
from accelbench.writing import write_atomically

STYLES = {"good": "green", "disturbed": "yellow", "bad": "bold red"}


@dataclass(frozen=True)
class Entry:
    """A run in the list."""

    folder: str
    """The name of its folder."""
    run: Run
    machine: str
    """The machine that it was measured on, in words."""

    @property
    def words(self) -> str:
        """Return everything that the run may be found by."""
        run = self.run
        return " ".join([run.info.run_id, run.info.label.words, self.machine, run.suite, run.info.device])

    @property
    def outcome(self) -> str:
        return "; ".join(filter(None, [self.run.counts_text, self.run.unfinished]))


def list_runs(stores: Sequence[RunStore], words: Sequence[str]) -> tuple[list[Entry], list[str]]:
    """Return the runs in which every one of the words is found, the newest first, and what could not be read."""
    entries, damaged = [], []
    for store in stores:
        try:
            run = Run.of(store)
        except (DataDamaged, UserError) as error:
            damaged.append(str(error))
            continue
        entry = Entry(store.path.name, run, fingerprint(run.info))
        if all(word.casefold() in entry.words.casefold() for word in words):
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.run.info.created, reverse=True), damaged


def print_index(entries: Sequence[Entry], console: Console) -> None:
    """Print for each run its id and name, what it measured on which machine, and how it ended."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in ("run", "what it is"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        run = entry.run
        what = Text.assemble(("● ", STYLES[run.light]), entry.outcome)
        for line in filter(None, [run.info.label.words, f"{run.suite} on {run.info.device}, {run.created}"]):
            what.append(f"\n{line}")
        what.append(f"\n{entry.machine}", style="dim")
        table.add_row(Text(entry.folder, style="bold"), what)
    console.print(table)


def write_index(entries: Sequence[Entry], folder: Path) -> Path:
    """Write the page of all these runs into the folder in which they lie."""
    environment = templates(Path(__file__).parent)
    page = environment.get_template("index.html").render(entries=entries)
    return write_atomically(folder / "index.html", lambda path: path.write_text(page, encoding="utf-8"))
