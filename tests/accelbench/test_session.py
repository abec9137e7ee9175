"""Tests of the end of a run: exit status, messages and report."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from accelbench.execution.store import Settings
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.record import Record
from accelbench.report.section import Run
from accelbench.session import exit_status, report
from tests.conftest import environment
from tests.fixtures.report_records import record, unmeasured
from tests.fixtures.report_runs import make_run

NOISY = record("stream", params={"op": "copy"}, noise=["other processes used 0.9 of 2 CPUs"])


def ended(path: Path, records: list[Record], require_quiet: bool) -> tuple[int, str]:
    store, out = make_run(path, records, settings=Settings(require_quiet=require_quiet)), io.StringIO()
    return exit_status(Run.of(store), PlainConsole(file=out, width=100)), out.getvalue()


def test_a_noisy_point_fails_a_run_with_require_quiet(tmp_path: Path) -> None:
    status, out = ended(tmp_path / "run", [record("queens"), NOISY], require_quiet=True)
    assert status == 1
    assert "stream op=copy" in out
    assert "queens" not in out


def test_a_run_without_noise_passes_with_require_quiet(tmp_path: Path) -> None:
    assert ended(tmp_path / "run", [record("queens")], require_quiet=True) == (0, "")


def test_a_noisy_point_passes_without_require_quiet(tmp_path: Path) -> None:
    assert ended(tmp_path / "run", [NOISY], require_quiet=False) == (0, "")


def test_a_failed_point_fails_the_run(tmp_path: Path) -> None:
    assert ended(tmp_path / "run", [unmeasured("fma", "failed", "it crashed")], require_quiet=False)[0] == 1


REPORT = """
import sys
from pathlib import Path
from accelbench.execution.store import RunStore
from accelbench.report.section import Run
from accelbench.session import report
store = RunStore.open(Path(sys.argv[1]))
assert report(store, Run.of(store), stderr=False)
assert "accelbench.report.page" not in sys.modules
"""


def test_the_report_is_written_in_a_forked_process(tmp_path: Path) -> None:
    """Tested in a new process, since threads of earlier tests prevent the fork."""
    store = make_run(tmp_path / "run", [record("launch")])
    command = [sys.executable, "-c", REPORT, str(store.path)]
    process = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert (store.path / "report.html").is_file()


def test_a_report_is_written_in_a_process_with_other_threads(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("launch")])
    ended = Event()
    other = Thread(target=ended.wait)
    other.start()
    try:
        assert report(store, Run.of(store), stderr=False)
    finally:
        ended.set()
        other.join()
    assert (store.path / "report.html").is_file()


def test_a_report_that_cannot_be_written_is_a_failure_with_a_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = make_run(tmp_path / "run", [record("launch")])
    (store.path / "report.html").mkdir()
    assert not report(store, Run.of(store), stderr=False)
    assert "report.html" in capfd.readouterr().err
