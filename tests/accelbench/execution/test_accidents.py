"""Whatever a benchmark does wrong is its own failed record: thirty ways in one real run, the innocent between them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run, records
from tests.fixtures.processes import living, marked

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]

LIMIT = 15
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
    "end-and-leave-a-child": "the worker ended without a result, exit status 0",
    "crash-and-leave-a-child": "the worker was killed by SIGSEGV",
    "die-of-a-signal-without-a-name": r"the worker was killed by signal \d+",
    "close-all": "the worker (ended without a result|closed its channel)",
    "close-the-channel": "the worker closed its channel, and was ended as it went on for 10 s",
    "print-binary": r"ValueError: after \\udcff and",
    "open-a-name-that-is-no-text": r"FileNotFoundError: .*\\udcff\\udcfe'",
    "recurse": "RecursionError|SIGSEGV",
    "fill-memory": "MemoryError",
    "write-everywhere": "the other end sent no JSON object",
    "raise-the-end": r"SystemExit: no more \\udcff",
    "raise-what-is-no-error": "BaseException: odd",
    "raise-the-end-of-a-generator": "GeneratorExit",
    "interrupt": "the worker was killed by SIGINT",
    "say-twice": "the worker sent more than one record",
    "say-of-another-point": "the worker's record is of another point: another cpu how=well",
    "say-what-is-no-number": "the worker's record is damaged: elapsed_s: .*finite number",
    "say-without-verification": "the worker's record has a result that was not verified",
    "say-half-a-character": "the worker's record cannot be stored: a text in it is no Unicode",
    "say-what-is-nested-too-deeply": r"the other end sent no JSON object .*\[\[\[",
    "say-too-much": "the other end sent no JSON object of at most",
    "say-that-it-has-ended": "the worker sent neither a record nor a heartbeat",
    "stop": f"hung: no result within {LIMIT} s",
    "clock-that-goes-backwards": "ArithmeticError: the clock says that a sample took -1.0 s",
    "metric-that-is-no-number": "ArithmeticError: the metric odd is nan",
    "check-that-is-a-word": "TypeError: the check of the answer gave",
    "check-that-is-nothing": "TypeError: the check of the answer gave None",
}


def test_each_accident_is_its_own_failed_record_and_nothing_is_left(accelbench: Run, tmp_path: Path) -> None:
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


def test_a_run_whose_folder_is_removed_says_that_nothing_is_left_of_it(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("run", "remover", "--no-ceilings", "--max-seconds", "0.1", "--out", "out")
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1
    assert (
        "cannot write the record of remover cpu n=2 to out/records.jsonl: No such file or directory" in process.stderr
    )
    assert "nothing of this run can be read again" in process.stderr
    assert "resume" not in process.stderr
