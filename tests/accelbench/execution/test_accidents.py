"""Tests of misbehaving benchmarks: each of 30 faults in one real run is a failed record of its own point."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, records
from tests.fixtures.processes import living, marked

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]

LIMIT = 10
HARMLESS = {
    "print-much",
    "start-a-thread-that-never-ends",
    "go-to-a-folder-that-is-gone",
    "remove-the-logs",
    "metric-with-half-a-character",
    "well-1",
    "well-2",
    "well-3",
}
REASONS = {
    "end-and-leave-a-child": "exit status 0",
    "crash-and-leave-a-child": "killed by SIGSEGV",
    "die-of-a-signal-without-a-name": r"signal \d+",
    "close-all": "exit status|closed its channel",
    "close-the-channel": "closed its channel .* 10 s",
    "print-binary": r"ValueError: .*\\udcff",
    "open-a-name-that-is-no-text": r"FileNotFoundError: .*\\udcff\\udcfe'",
    "recurse": "RecursionError|SIGSEGV",
    "fill-memory": "MemoryError",
    "write-everywhere": "JSON object",
    "raise-the-end": r"SystemExit: .*\\udcff",
    "raise-what-is-no-error": "BaseException",
    "raise-the-end-of-a-generator": "GeneratorExit",
    "interrupt": "killed by SIGINT",
    "say-twice": "more than one record",
    "say-of-another-point": "another cpu how=well",
    "say-what-is-no-number": "elapsed_s",
    "say-without-verification": "not verified",
    "say-half-a-character": "Unicode",
    "say-what-is-nested-too-deeply": r"JSON object .*\[\[\[",
    "say-too-much": "JSON object",
    "say-that-it-has-ended": "neither a record nor a heartbeat",
    "stop": f"hung: .*{LIMIT} s",
    "clock-that-goes-backwards": "ArithmeticError: .*-1.0 s",
    "metric-that-is-no-number": "ArithmeticError: .*nan",
    "check-that-is-a-word": "TypeError",
    "check-that-is-nothing": "TypeError: .*None",
}


def test_each_fault_is_a_failed_record_and_leaves_no_process(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *("run", "accident", "--no-ceilings", "--max-seconds", "0.1", "--time-limit", str(LIMIT), "--out", "out"),
        **marked(tmp_path),
    )
    assert process.returncode == 1, process.stderr
    assert "Traceback" not in process.stderr
    found: dict[str, dict[str, Any]] = {each["point"]["params"]["how"]: each for each in records(tmp_path / "out")}
    assert found.keys() == {*REASONS, *HARMLESS}
    wrong = {how: (each["status"], each["reason"]) for how, each in found.items() if not as_expected(how, each)}
    assert not wrong
    assert (tmp_path / "out" / "report.html").is_file()
    assert living(tmp_path) == []


def as_expected(how: str, found: dict[str, Any]) -> bool:
    if how in HARMLESS:
        return found["status"] == "measured"
    return found["status"] == "failed" and re.search(REASONS[how], found["reason"]) is not None


def test_a_run_with_a_removed_directory_ends_in_one_line(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("run", "remover", "--no-ceilings", "--max-seconds", "0.1", "--out", "out")
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1
    assert "remover cpu n=2" in process.stderr
    assert "out/records.jsonl: No such file or directory" in process.stderr
    assert "resume" not in process.stderr
