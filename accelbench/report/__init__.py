"""The report of a run, rebuilt from its store alone: terminal table, `report.html`, CSV and Parquet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.errors import RunBroken

if TYPE_CHECKING:
    from accelbench.run.store import RunStore


def write_report(store: RunStore) -> Path:
    """Write `report.html`, `records.csv` and `records.parquet` into the run directory; the path of the first."""
    from accelbench.report.page import render_page
    from accelbench.report.table import write_tables

    info, records = store.info(), store.records()
    write_tables(store)
    page = render_page(info, records)
    return write_atomically(store.path / "report.html", lambda path: path.write_text(page, encoding="utf-8"))


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` make a file beside `path`, then put it there in one step; a reader sees the old or the new one."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write(new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise RunBroken(f"cannot write {path}: {error.strerror or error}; the records are kept") from error
    return path
