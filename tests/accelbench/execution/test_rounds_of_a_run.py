"""Tests of runs with several repetitions in real processes: new, interleaved, and resumed after an interruption."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.patience import sampling_seconds
from accelbench.execution.store import RunStore, Settings
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.host import MIN_SECONDS
from tests.conftest import Run, command, environment, info, records
from tests.fixtures.own_benchmarks.fresh_processes import TIMES_KEPT
from tests.fixtures.report_pages import printed
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run

RUN = ("run", "fresh", "--device", "cpu", "--no-ceilings", "--max-seconds", "0.1", "--out", "out")


@pytest.fixture(autouse=True)
def times_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "times").mkdir()
    monkeypatch.setenv(TIMES_KEPT, str(tmp_path / "times"))


def measured(lines: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(line["point"]["params"]["n"], line["round"]) for line in lines]


def planned(run: Path) -> list[tuple[int, int]]:
    return [(scheduled.point["n"], scheduled.round) for scheduled in RunStore.open(run).info().schedule()]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run of two points with two repetitions each, and its printed output."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "times").mkdir()
    words = command(*RUN, "--param", "n=1,2", "--rounds", "2", "--seed", "7")
    variables = environment(**{TIMES_KEPT: str(folder / "times")})
    process = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder / "out", process.stdout


@pytest.fixture
def out(done: tuple[Path, str], tmp_path: Path) -> Path:
    """Copy of this run, for changes."""
    return shutil.copytree(done[0], tmp_path / "out")


@pytest.mark.slow
def test_every_repetition_is_a_new_process_and_repetitions_are_interleaved(done: tuple[Path, str]) -> None:
    run, printed = done
    lines = records(run)
    assert measured(lines) == planned(run)
    assert [number for _, number in measured(lines)] == [1, 1, 2, 2]
    assert [line["order"] for line in lines] == [1, 2, 3, 4]
    assert len({line["metrics"]["drawn"]["value"] for line in lines}) == 4
    assert all(line["phases"]["import_s"] > 0 for line in lines)
    assert "[4/4] fresh cpu n=" in printed
    assert "repetition 2 of 2" in printed
    assert "over 2 repetitions" in " ".join(printed.split())

    joined = RunStore.open(run).records()
    assert [point.point["n"] for point in joined] == [1, 2]
    for point in joined:
        assert point.timing is not None
        own = [line for line in lines if line["point"]["params"]["n"] == point.point["n"]]
        assert point.timing.samples == [sample for line in own for sample in line["timing"]["samples"]]
        assert [(found.number, found.order) for found in point.rounds] == [(o["round"], o["order"]) for o in own]


def test_repetitions_share_the_sampling_time_above_a_minimum() -> None:
    kernel, trained = Point("matmul", "cpu", {}), Point("cnn-mnist", "cpu", {}, backend="jax")
    assert sampling_seconds(Settings(max_seconds=15, rounds=5), kernel) == 3
    assert sampling_seconds(Settings(max_seconds=15, rounds=5), trained) == 15
    assert sampling_seconds(Settings(max_seconds=1, rounds=5), kernel) == MIN_SECONDS
    assert sampling_seconds(Settings(max_seconds=0.1, rounds=5), kernel) == 0.1


@pytest.mark.slow
def test_a_single_repetition_is_noted_once(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1,2")
    assert process.returncode == 0, process.stderr
    assert measured(records(tmp_path / "out")) == [(1, 1), (2, 1)]
    assert process.stdout.count("single process per result") == 1
    assert (tmp_path / "out" / "report.html").read_text().count("Single process per result") == 1
    assert "1 of 1," not in process.stdout
    assert "repetition 1" not in process.stdout


@pytest.mark.slow
def test_a_wrong_result_in_one_repetition_fails_the_point(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1", "--param", "wrong_in=2", "--rounds", "3")
    assert process.returncode == 1
    assert [line["status"] for line in records(tmp_path / "out")] == ["measured", "failed"]
    (record,) = RunStore.open(tmp_path / "out").records()
    assert (record.status, record.timing) == ("failed", None)
    assert record.reason == "repetition 2 of 3: wrong answer: count: expected another time, found time 2"
    assert "1 failed" in process.stdout
    again = accelbench("resume", "out", "--failed")
    assert again.returncode == 0, again.stderr
    (record,) = RunStore.open(tmp_path / "out").records()
    assert (record.status, len(record.rounds)) == ("measured", 3)


@pytest.mark.slow
def test_a_skipped_point_has_no_second_repetition(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1", "--param", "skipped_in=1", "--rounds", "3")
    assert process.returncode == 1, process.stderr
    (line,) = records(tmp_path / "out")
    assert line["status"] == "skipped"
    assert (tmp_path / "times" / "n1").read_text() == "x"


@pytest.mark.slow
def test_a_skip_in_a_later_repetition_is_a_failure(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench(*RUN, "--param", "n=1", "--param", "skipped_in=2", "--rounds", "2").returncode == 1
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.reason == "repetition 2 of 2 was skipped: it was measured often enough"


@pytest.mark.slow
def test_a_killed_run_is_resumed_at_the_next_repetition(accelbench: Run, tmp_path: Path) -> None:
    arguments = (*RUN, "--param", "n=1,2", "--rounds", "3")
    process = subprocess.Popen(command(*arguments), cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    stored = tmp_path / "out" / "records.jsonl"
    while process.poll() is None and not (stored.exists() and stored.read_bytes().count(b"\n") >= 3):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = stored.read_bytes()
    assert 3 <= before.count(b"\n") < 6
    assert all(record.status == "measured" for record in RunStore.open(tmp_path / "out").records())
    assert accelbench("resume", "out").returncode == 0
    assert stored.read_bytes().startswith(before)
    assert measured(records(tmp_path / "out")) == planned(tmp_path / "out")
    assert [line["order"] for line in records(tmp_path / "out")] == [1, 2, 3, 4, 5, 6]
    assert info(tmp_path / "out")["status"] == "finished"


@pytest.mark.slow
def test_resume_measures_a_missing_repetition(accelbench: Run, out: Path) -> None:
    stored = out / "records.jsonl"
    complete = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join([*complete[:1], *complete[2:]]))
    assert accelbench("resume", "out").returncode == 0
    lines = records(out)
    assert sorted(measured(lines)) == sorted(planned(out))
    assert measured(lines)[-1] == measured([json.loads(complete[1])])[0]


@pytest.mark.slow
def test_without_leaves_out_complete_points(accelbench: Run, out: Path, tmp_path: Path) -> None:
    stored = out / "records.jsonl"
    complete = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join(complete[:3]))
    lacking = json.loads(complete[3])["point"]["params"]["n"]
    assert accelbench(*RUN[:-1], "rest", "--param", "n=1,2,3", "--without", "out").returncode == 0
    assert {n for n, _ in measured(records(tmp_path / "rest"))} == {lacking, 3}


@pytest.mark.slow
def test_later_repetitions_load_the_code_compiled_by_the_first(accelbench: Run, tmp_path: Path) -> None:
    run = ("run", "kept-code", "--device", "cpu", "--max-seconds", "0.1", "--out", "out")
    assert accelbench(*run, "--rounds", "2").returncode == 0
    assert [line["metrics"]["loaded"]["value"] for line in records(tmp_path / "out")] == [0, 1]
    assert not list(Path(__file__).parents[2].glob("**/fresh_processes*.nbi"))


@pytest.mark.slow
def test_a_single_repetition_ignores_the_users_code_cache(accelbench: Run, tmp_path: Path) -> None:
    for out in ("one", "two"):
        run = ("run", "kept-code", "--device", "cpu", "--max-seconds", "0.1", "--out", out)
        assert accelbench(*run, NUMBA_CACHE_DIR=str(tmp_path / "cache")).returncode == 0
        (line,) = records(tmp_path / out)
        assert line["metrics"]["loaded"]["value"] == 0


@pytest.mark.slow
def test_a_crash_of_the_profiler_loses_only_the_profile(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *("run", "learn-once", "--device", "cpu", "--no-ceilings", "--backend", "jax", "--out", "out", "--trace")
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.timing is not None
    assert record.profile is not None
    assert "SIGABRT" in str(record.profile.bottleneck.reason)
    assert record.phases.import_s > 0


@pytest.mark.slow
def test_later_repetitions_of_a_training_workload_are_short_and_the_first_has_quality_and_profile(
    accelbench: Run, tmp_path: Path
) -> None:
    run = ("run", "learn", "--device", "cpu", "--no-ceilings", "--backend", "jax", "--param", "epochs=200", "--trace")
    process = accelbench(*run, "--rounds", "3", "--max-seconds", "0.1", "--out", "out")
    assert process.returncode == 0, process.stdout + process.stderr
    first, *others = records(tmp_path / "out")
    assert (len(first["curves"]["loss"]), first["timing"]["stop"]) == (200, "epochs done")
    assert first["profile"]["trace_folder"] == "traces/001-learn"
    for other in others:
        assert other["profile"] is None
        assert 2 <= len(other["curves"]["loss"]) < 200
        assert "final_loss" not in other["metrics"]
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.metrics["final_loss"].value == first["metrics"]["final_loss"]["value"]
    assert len(record.curves["loss"]) == 200
    assert record.profile is not None
    assert len(record.rounds) == 3
    assert record.timing is not None
    assert record.timing.steady is not None
    means = [line["timing"]["steady"]["mean"] for line in (first, *others)]
    assert min(means) <= record.timing.steady.mean <= max(means)


def test_an_interrupted_run_is_valid_with_some_repetitions(tmp_path: Path) -> None:
    complete = [record("matmul", round=number, order=number) for number in (1, 2, 3)]
    settings = Settings(rounds=3)
    some = make_run(tmp_path / "some", complete[:2], plan=[complete[0].point], settings=settings, status="interrupted")
    (joined,) = some.records()
    assert (joined.status, [found.number for found in joined.rounds]) == ("measured", [1, 2])
    assert "2 repetitions" in " ".join(printed(some).split())
