"""How a run ends: its exit status, and what it says of it."""

from __future__ import annotations

import io
from pathlib import Path

from accelbench.execution.store import Settings
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.record import Record
from accelbench.report.section import Run
from accelbench.session import exit_status
from tests.fixtures.report_records import record, unmeasured
from tests.fixtures.report_runs import make_run

NOISY = record("stream", params={"op": "copy"}, noise=["other processes used 0.9 of 2 CPUs"])


def ended(path: Path, records: list[Record], require_quiet: bool) -> tuple[int, str]:
    store, out = make_run(path, records, settings=Settings(require_quiet=require_quiet)), io.StringIO()
    return exit_status(Run.of(store), PlainConsole(file=out, width=100)), out.getvalue()


def test_a_disturbed_point_fails_the_run_that_requires_quiet_and_is_named(tmp_path: Path) -> None:
    status, out = ended(tmp_path / "run", [record("queens"), NOISY], require_quiet=True)
    assert status == 1
    assert "stream op=copy" in out
    assert "queens" not in out


def test_a_quiet_run_that_requires_quiet_ends_well(tmp_path: Path) -> None:
    assert ended(tmp_path / "run", [record("queens")], require_quiet=True) == (0, "")


def test_a_disturbed_point_alone_fails_no_other_run(tmp_path: Path) -> None:
    assert ended(tmp_path / "run", [NOISY], require_quiet=False) == (0, "")


def test_a_failed_point_fails_every_run(tmp_path: Path) -> None:
    assert ended(tmp_path / "run", [unmeasured("fma", "failed", "it crashed")], require_quiet=False)[0] == 1
