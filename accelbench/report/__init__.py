"""Report of one or several stored runs: terminal table, HTML page, CSV and Parquet."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.output.atomic_file import write_atomically

if TYPE_CHECKING:
    from accelbench.execution.store import RunStore
    from accelbench.report.joined import Joined
    from accelbench.report.prices import HourlyPrice
    from accelbench.report.section import Run

REPORTS = Path("reports")
"""Directory of the reports of several runs."""


def write_report(store: RunStore, run: Run | None = None, prices: tuple[HourlyPrice | None, ...] = ()) -> Path:
    """Write `report.html`, `records.csv` and `records.parquet` into the run's directory; return the page's path.

    `run` is the contents of the store, if they have been read already; `prices` has the price of an hour, if it is
    known. The list of runs is updated if the run is in it.
    """
    from accelbench.report.index import update_index
    from accelbench.report.joined import Joined
    from accelbench.report.page import render_joined
    from accelbench.report.section import Run
    from accelbench.report.table import write_tables

    run = run or Run.of(store)
    write_tables(store, run)
    page = render_joined(Joined((run,), prices))
    written = write_atomically(store.path / "report.html", lambda path: path.write_text(page, encoding="utf-8"))
    update_index(run)
    return written


def write_joined_report(joined: Joined, out: Path | None = None) -> tuple[Path, Path]:
    """Write the page of several runs and their records as CSV; return both paths.

    `out` is the path of the page. The default is a path under `reports` that depends only on the runs. Raises
    `UserError` for a path inside a run's directory and for a suffix other than `.html`.
    """
    from accelbench.report.page import render_joined
    from accelbench.report.table import write_joined_table

    out = out or REPORTS / f"joined-{_digest(joined)}.html"
    refuse_place(out)
    table = out.with_suffix(".csv")
    page = render_joined(joined, table.name)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_joined_table(table, joined.labelled)
    return write_atomically(out, lambda path: path.write_text(page, encoding="utf-8")), table


def refuse_place(out: Path) -> None:
    """Raise `UserError` if a page of several runs may not be written to that path."""
    if out.suffix != ".html":
        raise UserError(f"--out {out}: expected FILE.html (the CSV is written to FILE.csv)")
    if any((folder / "run.json").exists() for folder in out.absolute().parents):
        raise UserError(f"--out {out} is in the directory of a run: choose a path outside of it")


def _digest(joined: Joined) -> str:
    """Return eight hex digits that identify these runs in this order."""
    return sha256("\n".join(run.info.run_id for run in joined.runs).encode()).hexdigest()[:8]
