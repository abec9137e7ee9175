"""Fixtures: a run with all kinds of records, and its report."""

from __future__ import annotations

import pytest

from accelbench.execution.store import RunStore
from accelbench.report import write_report
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_runs import make_run


@pytest.fixture(scope="session")
def rich_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Run of a GPU node with its report; tests must not change it."""
    store = make_run(tmp_path_factory.mktemp("runs") / "rich", rich_records())
    assert write_report(store) == store.path / "report.html"
    return store


@pytest.fixture(scope="session")
def page(rich_run: RunStore) -> str:
    return (rich_run.path / "report.html").read_text(encoding="utf-8")
