"""The report of a run, rebuilt from its store alone: terminal table, `report.html`, CSV and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.writing import write_atomically

if TYPE_CHECKING:
    from accelbench.report.section import Run
    from accelbench.run.store import RunStore


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
