"""The report of a run, rebuilt from its store alone: terminal table, `report.html`, CSV and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.writing import write_atomically

if TYPE_CHECKING:
    from accelbench.run.store import RunStore


def write_report(store: RunStore) -> Path:
    """Write `report.html`, `records.csv` and `records.parquet` into the run directory; return the path of the first."""
    from accelbench.report.page import render_page
    from accelbench.report.table import write_tables

    info, records = store.info(), store.records()
    write_tables(store)
    page = render_page(info, records)
    return write_atomically(store.path / "report.html", lambda path: path.write_text(page, encoding="utf-8"))
