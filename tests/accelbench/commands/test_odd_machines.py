"""Wrong clock, too little memory, and Ctrl-C during the imports: one line without a traceback."""

from __future__ import annotations

import datetime as dates
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accelbench import commands
from accelbench.__main__ import main
from accelbench.execution import store
from tests.conftest import command, environment

SLOW = "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(600)\n"


@pytest.mark.parametrize("year", [1, 1810, 1970, 1999, 3000])
def test_an_implausible_clock_is_an_error(
    year: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Wrong(dates.datetime):
        @classmethod
        def now(cls, tz: dates.tzinfo | None = None) -> Wrong:
            return cls(year, 1, 1, tzinfo=tz)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "datetime", Wrong)
    assert main(["run", "stream", "--device", "cpu", "--no-ceilings"]) == 2
    assert str(year) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [MemoryError(), ImportError("libx.so: failed to map segment")], ids=repr)
def test_a_library_beyond_the_memory_limit_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*asked: object) -> None:
        raise error

    monkeypatch.setattr("accelbench.results.find_run.open_run", fail)
    assert main(["export", "--openmetrics"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_ctrl_c_during_imports_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "click.py").write_text(SLOW)
    process = subprocess.Popen(
        command("list"),
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path / "path")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not (tmp_path / "importing").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate() == (b"", b"")
    assert process.returncode == -signal.SIGINT


def test_ctrl_c_in_a_command_prints_one_line() -> None:
    code = f"""
import os, runpy, signal, sys
sys.path.insert(0, {str(Path(commands.__file__).parents[2])!r})
from accelbench.commands import schema
import click
schema.command = click.Command("schema", callback=lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["accelbench", "schema"]
runpy.run_module("accelbench", run_name="__main__", alter_sys=True)
"""
    process = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (process.returncode, process.stderr.strip()) == (130, "accelbench: interrupted")
