"""Tests of runs with real workers, signals and full disks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accelbench.execution.store import RunStore
from tests.conftest import Run, command, environment, info, records
from tests.fixtures.processes import children, has_ended, send_signal, wait_for

NO_REPORT = """
import sys
def refuse(event, arguments):
    if event == "open" and "report.html" in str(arguments[0]):
        raise OSError("no report today")
sys.addaudithook(refuse)
"""
RUN = ("run", "--no-ceilings", "--max-seconds", "0.5", "--out", "out")


def test_a_good_run_ends_with_status_0_and_a_report(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "behave", "--param", "us=100,300")
    assert process.returncode == 0, process.stderr
    first, second = records(tmp_path / "out")
    assert (first["status"], first["point"]["params"]) == ("measured", {"us": 100})
    assert second["verification"]["passed"]
    assert first["timing"]["summary"]["median"] >= 100e-6
    used = [end - begin for begin, end in first["timing"]["causes"]["used"]]
    assert len(first["timing"]["samples"]) >= sum(used) == first["timing"]["summary"]["count"]
    assert first["phases"]["import_s"] > 0
    assert second["phases"]["import_s"] > 0
    assert info(tmp_path / "out")["status"] == "finished"
    assert (tmp_path / "out" / "report.html").is_file()
    assert (tmp_path / "out" / "records.csv").is_file()
    assert "[2/2]" in process.stdout


@pytest.mark.slow
def test_a_crash_loses_one_point_and_the_run_continues(accelbench: Run, tmp_path: Path) -> None:
    deaths = {
        "crash": ("SIGSEGV", "about to crash"),
        "vanish": ("exit status 7", "about to vanish"),
        "fill-memory": ("MemoryError", "MemoryError"),
        "raise": ("ValueError", "break_off"),
    }
    process = accelbench(*RUN, "misbehave", "--param", "how=" + ",".join((*deaths, "well")))
    assert process.returncode == 1
    *failed, well = records(tmp_path / "out")
    assert [record["point"]["params"]["how"] for record in failed] == list(deaths)
    for record, (reason, printed) in zip(failed, deaths.values(), strict=True):
        assert record["status"] == "failed"
        assert reason in record["reason"]
        assert printed in "\n".join(record["output_tail"])
        assert reason in process.stdout
    assert well["status"] == "measured"


def test_a_failed_check_is_a_failed_record(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench(*RUN, "misbehave", "--param", "how=wrong").returncode == 1
    (record,) = records(tmp_path / "out")
    assert record["status"] == "failed"
    assert record["timing"] is None
    assert "expected 1, found 2" in record["reason"]


@pytest.mark.slow
def test_a_skipped_point_is_recorded_and_not_a_failure(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "misbehave", "behave", "--param", "how=skip", "--param", "us=100")
    assert process.returncode == 0, process.stdout + process.stderr
    by_benchmark = {record["point"]["benchmark"]: record for record in records(tmp_path / "out")}
    assert by_benchmark["behave"]["status"] == "measured"
    skipped = by_benchmark["misbehave"]
    assert skipped["status"] == "skipped"
    assert skipped["reason"]


@pytest.mark.slow
def test_a_run_without_measurements_fails(accelbench: Run) -> None:
    process = accelbench(*RUN, "misbehave", "--param", "how=skip")
    assert process.returncode == 1
    assert "nothing was measured" in process.stdout


@pytest.mark.slow
def test_a_hang_is_ended_and_its_stack_is_recorded(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--time-limit", "5", "misbehave", "--param", "how=hang,well")
    assert process.returncode == 1
    hung, well = records(tmp_path / "out")
    assert "5 s" in hung["reason"]
    assert "hang (" in "\n".join(hung["output_tail"])
    assert well["status"] == "measured"


def start_long_run(tmp_path: Path) -> subprocess.Popen[str]:
    """Start a run of a short and a long point; return when the long point is being measured."""
    process = subprocess.Popen(
        command(*RUN, "--max-seconds", "60", "behave", "--param", "us=100,5000000"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # ignored under nohup
    )
    stored = tmp_path / "out" / "records.jsonl"
    while process.poll() is None and not (stored.exists() and stored.read_text() and children(process.pid)):
        time.sleep(0.05)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    # SIGTERM is tested by the scheduler test, too.
    "signum",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive), signal.SIGHUP],
)
def test_an_interrupted_run_is_valid_and_resume_measures_only_missing_points(
    accelbench: Run, tmp_path: Path, signum: signal.Signals
) -> None:
    process = start_long_run(tmp_path)
    workers = children(process.pid, recursive=True)
    process.send_signal(signum)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert ("resume out" in errors) == (signum != signal.SIGHUP), "a closed terminal gets no output"
    wait_for(lambda: all(map(has_ended, workers)))
    assert info(tmp_path / "out")["status"] == "interrupted"
    (before,) = records(tmp_path / "out")
    # The long point would take a minute; `resume` reads the shortened plan from the disk.
    shorten_plan(tmp_path / "out")
    assert accelbench("resume", "out").returncode == 0
    kept, new = records(tmp_path / "out")
    assert kept == before
    assert new["point"]["params"] == {"us": 200}
    assert info(tmp_path / "out")["status"] == "finished"


@pytest.mark.slow
def test_a_run_with_an_unknown_benchmark_is_not_resumed(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench(*RUN, "behave", "--param", "us=100").returncode == 0
    (tmp_path / "out" / "records.jsonl").write_text("")
    process = accelbench("resume", "out", ACCELBENCH_PATH=None)
    assert process.returncode == 2
    assert "behave" in process.stderr
    assert "ACCELBENCH_PATH" in process.stderr
    assert process.stderr.count("\n") == 1
    assert info(tmp_path / "out")["status"] == "finished"


@pytest.mark.slow
def test_a_run_with_deleted_records_fails(tmp_path: Path) -> None:
    process = start_long_run(tmp_path)
    (tmp_path / "out" / "records.jsonl").write_text("")
    send_signal(children(process.pid, recursive=True), signal.SIGKILL)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "behave cpu us=100: " in output
    assert "records.jsonl was changed" in " ".join(output.split())


@pytest.mark.slow
def test_a_run_without_a_report_fails(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_REPORT)
    process = accelbench(*RUN, "behave", "--param", "us=100", PYTHONPATH=str(tmp_path))
    assert process.returncode == 1
    assert [record["status"] for record in records(tmp_path / "out")] == ["measured"]
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.slow
def test_repeated_signals_of_a_scheduler_interrupt_the_run_without_a_failed_point(
    accelbench: Run, tmp_path: Path
) -> None:
    process = start_long_run(tmp_path)
    send_signal(children(process.pid, recursive=True), signal.SIGTERM)
    time.sleep(0.3)  # the worker dies before the runner gets the signal
    for _ in range(20):
        process.terminate()
        time.sleep(0.05)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130, errors
    (before,) = records(tmp_path / "out")
    assert before["status"] == "measured"
    assert info(tmp_path / "out")["status"] == "interrupted"
    assert (tmp_path / "out" / "report.html").is_file()
    shorten_plan(tmp_path / "out")
    assert accelbench("resume", "out").returncode == 0
    assert [record["status"] for record in records(tmp_path / "out")] == ["measured", "measured"]


@pytest.mark.slow
def test_a_signal_to_the_worker_alone_fails_its_point(tmp_path: Path) -> None:
    process = start_long_run(tmp_path)
    send_signal(children(process.pid, recursive=True), signal.SIGTERM)
    process.communicate(timeout=200)
    assert process.returncode == 1
    assert "killed by SIGTERM" in records(tmp_path / "out")[1]["reason"]


def shorten_plan(run: Path) -> None:
    stored = info(run)
    stored["plan"][1]["params"]["us"] = 200
    stored["settings"]["max_seconds"] = 0.5
    (run / "run.json").write_text(json.dumps(stored), encoding="utf-8")


@pytest.mark.slow
def test_resume_repeats_the_point_of_a_truncated_line(accelbench: Run, tmp_path: Path) -> None:
    accelbench(*RUN, "behave", "--param", "us=100,200")
    stored = tmp_path / "out" / "records.jsonl"
    complete = stored.read_bytes()
    stored.write_bytes(complete[:-40])
    process = accelbench("report", "out")
    assert process.returncode == 1
    assert "records.jsonl line 2" in process.stderr
    assert process.stderr.count("\n") == 1
    assert "1 of 2 points" in process.stdout
    assert accelbench("resume", "out").returncode == 0
    assert [record["point"]["params"]["us"] for record in records(tmp_path / "out")] == [100, 200]
    assert stored.read_bytes().startswith(complete.splitlines(keepends=True)[0])


@pytest.mark.slow
def test_resume_can_repeat_failed_points(accelbench: Run, tmp_path: Path) -> None:
    accelbench(*RUN, "misbehave", "--param", "how=wrong,well")
    assert accelbench("resume", "out").returncode == 1
    assert len(records(tmp_path / "out")) == 2
    assert accelbench("resume", "out", "--failed").returncode == 1
    assert [record["point"]["params"]["how"] for record in records(tmp_path / "out")] == ["wrong", "well", "wrong"]


@pytest.mark.slow
def test_a_second_run_in_the_same_directory_is_refused(accelbench: Run, tmp_path: Path) -> None:
    process = start_long_run(tmp_path)
    try:
        second = accelbench(*RUN, "behave")
        resumed = accelbench("resume", "out")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=200)
    assert second.returncode == resumed.returncode == 2
    assert "is writing out" in second.stderr
    assert "is writing out" in resumed.stderr
    assert len(records(tmp_path / "out")) == 1


@pytest.mark.slow
def test_a_non_empty_directory_is_refused(accelbench: Run, tmp_path: Path) -> None:
    accelbench(*RUN, "behave")
    before = (tmp_path / "out" / "run.json").read_bytes()
    process = accelbench(*RUN, "behave")
    assert process.returncode == 2
    assert "already holds a run" in process.stderr
    assert (tmp_path / "out" / "run.json").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    process = accelbench("run", "behave", "--out", "mine")
    assert (process.returncode, "not empty" in process.stderr) == (2, True)
    assert sorted(os.listdir(tmp_path / "mine")) == ["thesis.tex"]


@contextmanager
def small_disk(path: Path, kib: int) -> Iterator[list[str]]:
    """Mount a disk of `kib` KiB, and yield a command prefix.

    Without the right to mount, the prefix limits the size of every file instead, which raises nearly the same error.
    """
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", path], capture_output=True)
    try:
        yield [] if mounted.returncode == 0 else ["prlimit", f"--fsize={kib * 1024}"]
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", path], check=True)


FURTHER_DISKS = [pytest.param(kib, marks=pytest.mark.exhaustive) for kib in (16, 20, 28, 32)]
"""Further disk sizes in KiB, full after some points."""


@pytest.mark.slow
@pytest.mark.parametrize("kib", [4, 8, 10, 12, 14, *FURTHER_DISKS, 24])
def test_a_full_disk_ends_in_one_line_and_the_stored_records_are_readable(tmp_path: Path, kib: int) -> None:
    points = "us=" + ",".join(map(str, range(100, 112)))
    disk = tmp_path / "disk"
    with small_disk(disk, kib) as before:
        process = subprocess.run(
            [*before, *command(*RUN[:-1], disk / "out", "--max-seconds", "0.1", "behave", "--param", points)],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )
        errors = process.stderr
        assert errors.count("\n") == 1, errors
        assert re.search("No space left on device|File too large", errors)
        if process.returncode == 2:
            assert not list(disk.glob("out/*"))
        else:
            assert process.returncode == 1
            kept = RunStore(disk / "out").contents()
            assert f"; {len(kept.lines)} record" in errors
            assert f"'accelbench resume {disk / 'out'}'" in errors
            assert not kept.damage
            assert all(line.status == "measured" for line in kept.lines)


@pytest.mark.slow
def test_a_directory_name_may_be_invalid_unicode(accelbench: Run, tmp_path: Path) -> None:
    out = tmp_path / os.fsdecode(b"out-\xff")
    process = accelbench(*RUN[:-1], out, "behave")
    assert process.returncode == 0, process.stderr
    assert (out / "report.html").is_file()


@pytest.mark.slow
def test_an_unwritable_directory_is_one_line(accelbench: Run) -> None:
    process = accelbench("run", "behave", "--out", "/proc/accelbench")
    assert process.returncode == 2
    assert "/proc/accelbench" in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": None},
        {"LC_ALL": "en_US.ISO-8859-1", "PYTHONIOENCODING": "latin-1", "HOME": "/nonexistent"},
    ],
    ids=["C locale and no HOME", "latin-1 and a HOME that is missing"],
)
def test_unusual_locales_and_a_missing_home_are_supported(
    accelbench: Run, tmp_path: Path, changes: dict[str, str | None]
) -> None:
    process = accelbench(*RUN, "behave", **changes)
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.slow
def test_a_matrix_larger_than_memory_is_skipped(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *(*RUN, "matmul", "--device", "cpu", "--param", "n=1e9"),
        *("--param", "impl=vendor,numba", "--param", "dtype=float32"),
    )
    assert process.returncode == 1, process.stderr
    found = records(tmp_path / "out")
    assert {record["point"]["params"]["impl"] for record in found} == {"vendor", "numba"}
    for record in found:
        assert (record["status"], record["point"]["params"]["n"]) == ("skipped", 1_000_000_000)
        assert "10.4 EiB" in record["reason"]
        assert record["reason"] in process.stdout.replace("\n", " ")
