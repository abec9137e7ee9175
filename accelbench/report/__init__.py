"""The report of a run, or of several, rebuilt from their stores alone: terminal table, page, CSV and Parquet."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.output.atomic_file import write_atomically

if TYPE_CHECKING:
    from accelbench.execution.store import RunStore
    from accelbench.report.joined import Joined
    from accelbench.report.section import Run

REPORTS = Path("reports")
"""The folder of the reports of several runs, which belong into no run's own folder."""


def write_report(store: RunStore, run: Run | None = None) -> Path:
    """Write `report.html`, `records.csv` and `records.parquet` into the run's folder; return the path of the first.

    `run` is what the store holds, where it has been read already.
    """
    from accelbench.report.page import render_page
    from accelbench.report.section import Run
    from accelbench.report.table import write_tables

    run = run or Run.of(store)
    write_tables(store, run)
    page = render_page(run)
    return write_atomically(store.path / "report.html", lambda path: path.write_text(page, encoding="utf-8"))


def write_joined_report(joined: Joined, out: Path | None = None) -> tuple[Path, Path]:
    """Write the page of several runs and, beside it, their records as CSV; return the paths of both.

    `out` is the page, by default one under `reports` that is named after the runs, so that the same runs have the same
    page. `UserError` for a place where it would change a run, and for a name that is no page's.
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
    """Raise `UserError` where a page of several runs may not be written to that path."""
    if out.suffix != ".html":
        raise UserError(f"--out {out} is no page: name it FILE.html; the CSV is written beside it as FILE.csv")
    if any((folder / "run.json").exists() for folder in out.absolute().parents):
        raise UserError(f"--out {out} lies in the folder of a run, which a report of several leaves as it is")


def _digest(joined: Joined) -> str:
    """Return eight hex digits that stand for these runs in this order."""
    return sha256("\n".join(run.info.run_id for run in joined.runs).encode()).hexdigest()[:8]
