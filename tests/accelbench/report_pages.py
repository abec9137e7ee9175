"""The page and the table of a report, as tests read them."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rich.console import Console

from accelbench.report.page import render_page
from accelbench.report.terminal import WIDTH, print_table
from accelbench.store import RunStore
from profiling.record import Record
from tests.accelbench.report_runs import make_run


def printed(store: RunStore, width: int = WIDTH) -> str:
    out = io.StringIO()
    print_table(store.info(), store.records(), Console(file=out, width=width, highlight=False))
    return out.getvalue()


def page_of(path: Path, records: list[Record], **changes: Any) -> str:
    store = make_run(path / "run", records, **changes)
    return render_page(store.info(), store.records())


class Tags(HTMLParser):
    """Every start tag of a page with its attributes, and every text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data
