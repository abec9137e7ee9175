"""Runs of several rounds, in real processes: fresh, interleaved, and gone on with where they were ended."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.runner import sampling_seconds
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


def turns(lines: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(line["point"]["params"]["n"], line["round"]) for line in lines]


def planned(run: Path) -> list[tuple[int, int]]:
    return [(turn.point["n"], turn.round) for turn in RunStore.open(run).info().schedule()]


@pytest.mark.slow
def test_every_round_is_a_fresh_process_and_the_rounds_are_interleaved(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1,2", "--rounds", "2", "--seed", "7")
    assert process.returncode == 0, process.stderr
    lines = records(tmp_path / "out")
    assert turns(lines) == planned(tmp_path / "out")
    assert [number for _, number in turns(lines)] == [1, 1, 2, 2]
    assert [line["order"] for line in lines] == [1, 2, 3, 4]
    assert len({line["metrics"]["drawn"]["value"] for line in lines}) == 4
    assert all(line["phases"]["import_s"] > 0 for line in lines)
    assert "[4/4] fresh cpu n=" in process.stdout
    assert "round 2 of 2" in process.stdout
    assert "median over 2 rounds" in " ".join(process.stdout.split())

    joined = RunStore.open(tmp_path / "out").records()
    assert [point.point["n"] for point in joined] == [1, 2]
    for point in joined:
        assert point.timing is not None
        own = [line for line in lines if line["point"]["params"]["n"] == point.point["n"]]
        assert point.timing.samples == [sample for line in own for sample in line["timing"]["samples"]]
        assert [(found.number, found.order) for found in point.rounds] == [(o["round"], o["order"]) for o in own]


def test_the_rounds_share_the_sampling_time_but_none_gets_less_than_its_rule_needs() -> None:
    kernel, trained = Point("matmul", "cpu", {}), Point("cnn-mnist", "cpu", {}, backend="jax")
    assert sampling_seconds(Settings(max_seconds=15, rounds=5), kernel) == 3
    assert sampling_seconds(Settings(max_seconds=15, rounds=5), trained) == 15
    assert sampling_seconds(Settings(max_seconds=1, rounds=5), kernel) == MIN_SECONDS
    assert sampling_seconds(Settings(max_seconds=0.1, rounds=5), kernel) == 0.1


@pytest.mark.slow
def test_one_round_says_once_that_it_is_of_one_process_only(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1,2")
    assert process.returncode == 0, process.stderr
    assert turns(records(tmp_path / "out")) == [(1, 1), (2, 1)]
    assert process.stdout.count("within one process only") == 1
    assert (tmp_path / "out" / "report.html").read_text().count("Within one process only") == 1
    assert "round 1 of" not in process.stdout


@pytest.mark.slow
def test_a_point_that_is_wrong_in_one_round_has_failed_and_the_round_is_named(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1", "--param", "wrong_in=2", "--rounds", "3")
    assert process.returncode == 1
    assert [line["status"] for line in records(tmp_path / "out")] == ["measured", "failed"]
    (record,) = RunStore.open(tmp_path / "out").records()
    assert (record.status, record.timing) == ("failed", None)
    assert record.reason == "round 2 of 3: wrong answer: count: expected another time, found time 2"
    assert "1 failed" in process.stdout
    again = accelbench("resume", "out", "--failed")
    assert again.returncode == 0, again.stderr
    (record,) = RunStore.open(tmp_path / "out").records()
    assert (record.status, len(record.rounds)) == ("measured", 3)


@pytest.mark.slow
def test_a_point_that_is_skipped_is_not_tried_in_a_second_round(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(*RUN, "--param", "n=1", "--param", "skipped_in=1", "--rounds", "3")
    assert process.returncode == 1, process.stderr
    (line,) = records(tmp_path / "out")
    assert line["status"] == "skipped"
    assert (tmp_path / "times" / "n1").read_text() == "x"


@pytest.mark.slow
def test_a_later_round_cannot_skip_what_was_measured(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench(*RUN, "--param", "n=1", "--param", "skipped_in=2", "--rounds", "2").returncode == 1
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.reason == "round 2 of 2 was skipped: it was measured often enough"


@pytest.mark.slow
def test_a_killed_run_goes_on_round_by_round(accelbench: Run, tmp_path: Path) -> None:
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
    assert turns(records(tmp_path / "out")) == planned(tmp_path / "out")
    assert [line["order"] for line in records(tmp_path / "out")] == [1, 2, 3, 4, 5, 6]
    assert info(tmp_path / "out")["status"] == "finished"


@pytest.mark.slow
def test_resume_measures_the_round_that_the_file_lacks(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench(*RUN, "--param", "n=1,2", "--rounds", "2").returncode == 0
    stored = tmp_path / "out" / "records.jsonl"
    whole = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join([*whole[:1], *whole[2:]]))
    assert accelbench("resume", "out").returncode == 0
    lines = records(tmp_path / "out")
    assert sorted(turns(lines)) == sorted(planned(tmp_path / "out"))
    assert turns(lines)[-1] == turns([json.loads(whole[1])])[0]


@pytest.mark.slow
def test_what_has_all_its_rounds_is_left_out(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench(*RUN, "--param", "n=1,2", "--rounds", "2").returncode == 0
    stored = tmp_path / "out" / "records.jsonl"
    whole = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join(whole[:3]))
    lacking = json.loads(whole[3])["point"]["params"]["n"]
    assert accelbench(*RUN[:-1], "rest", "--param", "n=1,2,3", "--without", "out").returncode == 0
    assert {n for n, _ in turns(records(tmp_path / "rest"))} == {lacking, 3}


@pytest.mark.slow
def test_later_rounds_load_what_the_first_has_compiled(accelbench: Run, tmp_path: Path) -> None:
    run = ("run", "kept-code", "--device", "cpu", "--max-seconds", "0.1", "--out", "out")
    assert accelbench(*run, "--rounds", "2").returncode == 0
    assert [line["metrics"]["loaded"]["value"] for line in records(tmp_path / "out")] == [0, 1]
    assert not list(Path(__file__).parents[2].glob("**/fresh_processes*.nbi"))


@pytest.mark.slow
def test_a_point_of_one_round_compiles_anew_whatever_the_users_cache_holds(accelbench: Run, tmp_path: Path) -> None:
    for out in ("one", "two"):
        run = ("run", "kept-code", "--device", "cpu", "--max-seconds", "0.1", "--out", out)
        assert accelbench(*run, NUMBA_CACHE_DIR=str(tmp_path / "cache")).returncode == 0
        (line,) = records(tmp_path / out)
        assert line["metrics"]["loaded"]["value"] == 0


@pytest.mark.slow
def test_a_training_is_profiled_in_its_first_round_only(accelbench: Run, tmp_path: Path) -> None:
    run = ("run", "learn", "--device", "cpu", "--no-ceilings", "--backend", "jax", "--out", "out", "--trace")
    process = accelbench(*run, "--rounds", "2")
    assert process.returncode == 0, process.stdout + process.stderr
    first, second = records(tmp_path / "out")
    assert first["profile"]["trace_folder"] == "traces/001-learn"
    assert second["profile"] is None
    assert second["timing"]["summary"]["count"] == first["timing"]["summary"]["count"]
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.profile is not None
    assert len(record.rounds) == 2


@pytest.mark.slow
def test_a_profiler_that_ends_the_process_costs_the_profile_and_not_the_figures(
    accelbench: Run, tmp_path: Path
) -> None:
    process = accelbench(
        *("run", "learn-once", "--device", "cpu", "--no-ceilings", "--backend", "jax", "--out", "out", "--trace")
    )
    assert process.returncode == 0, process.stdout + process.stderr
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.timing is not None
    assert record.profile is not None
    assert record.profile.bottleneck.reason == "profiling failed: the worker was killed by SIGABRT"
    assert record.phases.import_s > 0


@pytest.mark.slow
def test_later_rounds_of_a_training_end_when_its_speed_is_known_and_the_first_tells_its_quality(
    accelbench: Run, tmp_path: Path
) -> None:
    run = ("run", "learn", "--device", "cpu", "--no-ceilings", "--backend", "jax", "--param", "epochs=200")
    process = accelbench(*run, "--rounds", "3", "--max-seconds", "0.1", "--out", "out")
    assert process.returncode == 0, process.stdout + process.stderr
    first, *others = records(tmp_path / "out")
    assert (len(first["curves"]["loss"]), first["timing"]["stop"]) == (200, "epochs done")
    for other in others:
        assert 2 <= len(other["curves"]["loss"]) < 200
        assert "final_loss" not in other["metrics"]
    (record,) = RunStore.open(tmp_path / "out").records()
    assert record.metrics["final_loss"].value == first["metrics"]["final_loss"]["value"]
    assert len(record.curves["loss"]) == 200
    assert record.timing is not None
    assert record.timing.steady is not None
    assert record.timing.steady.mean == sorted(block.seconds / block.steps for block in record.timing.steady.blocks)[1]


def test_an_interrupted_run_is_valid_with_the_rounds_that_it_has(tmp_path: Path) -> None:
    whole = [record("matmul", round=number, order=number) for number in (1, 2, 3)]
    settings = Settings(rounds=3)
    some = make_run(tmp_path / "some", whole[:2], plan=[whole[0].point], settings=settings, status="interrupted")
    (joined,) = some.records()
    assert (joined.status, [found.number for found in joined.rounds]) == ("measured", [1, 2])
    assert "each figure is the median over 2 rounds" in " ".join(printed(some).split())
