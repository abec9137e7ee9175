"""Tests of the GPU day with stages that take seconds and need no GPU: order, repetition, resuming and skipping."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelbench.errors import UserError
from accelbench.execution.output_log import END_BYTES, HEAD_BYTES
from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.gpu_day import day, stages
from accelbench.gpu_day.day import DayOptions, chosen_stages, run_day
from accelbench.gpu_day.outcome import key_results
from accelbench.gpu_day.process import Command, run_limited
from accelbench.gpu_day.stages import STAGES, WANTED, DayPlan, DayStage, StageUnavailable
from accelbench.output.console import PlainConsole
from tests.conftest import OWN_BENCHMARKS, ROOT, environment, info, records
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_runs import make_run

CARD = "NVIDIA H100 80GB HBM3 0123456789ab"
IGNORES_SIGINT = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('running', flush=True); time.sleep(60)"
)


def script(text: str, folder: Path) -> Command:
    return Command([sys.executable, "-c", text], folder)


def stage_of(name: str, text: str) -> DayStage:
    """Return a stage that runs a line of Python in the output directory."""
    return DayStage(name, "a line of Python", 60, lambda plan: [script(text, plan.out)])


@pytest.fixture
def short_stages(monkeypatch: pytest.MonkeyPatch) -> dict[str, DayStage]:
    """Stages that record their execution; one fails, and one is unavailable."""

    def nowhere(plan: DayPlan) -> list[Command]:
        raise StageUnavailable("there is no such place")

    noting = "open('ran', 'a').write('{} ')"
    made = [
        stage_of("probe", noting.format("probe") + "; print('all is well')"),
        stage_of("tests", noting.format("tests") + "; print('2 failed, 3 passed'); raise SystemExit(1)"),
        DayStage("sanitizer", "nothing", 60, nowhere),
        stage_of("rest", noting.format("rest")),
    ]
    ours = {stage.name: stage for stage in made}
    monkeypatch.setattr(day, "STAGES", ours)
    return ours


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a GPU day in a folder; return its exit status and output."""

    def run(card: str = CARD, **options: Any) -> tuple[int, str]:
        console = PlainConsole(file=io.StringIO(), width=160)
        status = run_day(DayPlan(tmp_path), DayOptions(**options), card, console)
        return status, console.file.getvalue()  # type: ignore[attr-defined]

    return run


def states(folder: Path) -> dict[str, str]:
    stages = json.loads((folder / "day.json").read_text(encoding="utf-8"))["stages"]
    return {name: entry["state"] for name, entry in stages.items()}


@pytest.mark.usefixtures("short_stages")
def test_a_failed_stage_does_not_stop_the_next(run: Run, tmp_path: Path) -> None:
    status, output = run()
    assert status == 1
    assert states(tmp_path) == {"probe": "done", "tests": "failed", "sanitizer": "skipped", "rest": "done"}
    assert "2 failed, 3 passed" in output
    assert "there is no such place" in output


@pytest.mark.usefixtures("short_stages")
def test_finished_stages_are_repeated_only_on_request(run: Run, tmp_path: Path) -> None:
    run()
    run()
    assert (tmp_path / "ran").read_text() == "probe tests rest "
    run(again=["tests"])
    assert (tmp_path / "ran").read_text() == "probe tests rest tests "


@pytest.mark.usefixtures("short_stages")
def short_stages_can_be_selected_and_ordered(run: Run, tmp_path: Path) -> None:
    assert run(stages=["rest", "probe"])[0] == 0
    assert (tmp_path / "ran").read_text() == "rest probe "


@pytest.mark.slow
def test_a_stage_is_resumed_after_its_time_limit(short_stages: dict[str, DayStage], run: Run, tmp_path: Path) -> None:
    slow_once = "import pathlib, time; p = pathlib.Path('there'); n = 99 * (not p.exists()); p.touch(); time.sleep(n)"
    short_stages["tests"] = stage_of("tests", slow_once)
    assert run(limits={"tests": 5.0})[0] == 1
    assert states(tmp_path)["tests"] == "out of time"
    assert states(tmp_path)["rest"] == "done"
    assert run()[0] == 0
    assert states(tmp_path)["tests"] == "done"


@pytest.mark.usefixtures("short_stages")
def test_a_used_up_budget_leaves_stages_for_the_next_call(run: Run, tmp_path: Path) -> None:
    assert run(budget=60, stages=["probe", "rest"])[0] == 1
    assert states(tmp_path) == {"probe": "not reached", "rest": "not reached"}
    assert run(stages=["probe", "rest"])[0] == 0


def test_with_a_short_budget_results_come_before_tests() -> None:
    assert [stage.name for stage in chosen_stages(DayOptions())] == list(STAGES)
    assert [stage.name for stage in chosen_stages(DayOptions(budget=540))] == list(WANTED)
    assert [stage.name for stage in chosen_stages(DayOptions(budget=7200))] == list(STAGES)
    assert set(WANTED) == set(STAGES)
    assert sum(stage.seconds for stage in STAGES.values()) == 30 * 60


@pytest.mark.parametrize(
    "options", [{"stages": ["frist"]}, {"limits": {"frist": 5.0}}, {"again": ["frist"]}], ids=lambda w: next(iter(w))
)
def test_an_unknown_stage_is_an_error(run: Run, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"'frist'.*probe, tests, first, train"):
        run(**options)


@pytest.mark.usefixtures("short_stages")
def test_the_day_of_another_gpu_is_not_resumed(run: Run, tmp_path: Path) -> None:
    run()
    with pytest.raises(UserError, match="another GPU"):
        run(card="Tesla T4 ba9876543210")
    (tmp_path / "day.json").write_text("{}")
    with pytest.raises(UserError, match=r"day\.json"):
        run()


@pytest.mark.slow
def test_a_command_that_ignores_sigint_is_killed_with_its_children(tmp_path: Path) -> None:
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {IGNORES_SIGINT!r}])"
    outcome = run_limited(script(text, tmp_path), tmp_path / "log", seconds=3, grace_s=1)
    assert outcome.status is None
    assert "running" in (tmp_path / "log").read_text()


def test_the_log_of_a_stage_is_bounded(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    outcome = run_limited(script("print('x' * (3 << 20)); print('last')", tmp_path), tmp_path / "log", seconds=60)
    assert (outcome.status, outcome.last_line) == (0, "last")
    assert (tmp_path / "log").stat().st_size < HEAD_BYTES + END_BYTES + 100
    assert (tmp_path / "log").read_bytes().endswith(b"last\n")
    assert capfdbinary.readouterr().out.count(b"x") == 3 << 20


def behaving(plan: DayPlan) -> list[Command]:
    """Return the command of a real run of six points on the CPU."""
    if (plan.out / "first" / "run.json").exists():
        return [stages.python("accelbench", "resume", plan.out / "first", folder=ROOT)]
    options = (
        "--param",
        "us=1,200,201,202,203,204",
        "--no-ceilings",
        "--rounds",
        "1",
        "--max-seconds",
        "0.2",
        "--patience",
        "0",
        "--device",
        "cpu",
    )
    return [stages.python("accelbench", "run", "behave", *options, "--out", plan.out / "first", folder=ROOT)]


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_and_in_the_table_and_the_bundle(
    short_stages: dict[str, DayStage], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELBENCH_PATH", str(OWN_BENCHMARKS))
    monkeypatch.setenv("TEST_SLOWDOWN", "1e5")  # the second point takes longer than the stage
    short_stages["first"] = DayStage("first", "a run", 20, behaving)
    status, output = run(stages=["first"])
    assert status == 1
    assert states(tmp_path) == {"first": "out of time"}
    assert info(tmp_path / "first")["status"] == "interrupted"
    before = records(tmp_path / "first")
    assert len(before) < 6
    assert "not reached" in output
    monkeypatch.delenv("TEST_SLOWDOWN")
    status, output = run(stages=["first"], limits={"first": 240.0})
    assert status == 0
    assert "6 of 6 points" in output
    assert records(tmp_path / "first")[: len(before)] == before
    assert "packed" in output
    run(stages=["first"], again=["first"], limits={"first": 0.0})
    (earlier,) = (tmp_path / "earlier").iterdir()
    assert len(records(earlier)) == 6


SIGNALLED = """
from pathlib import Path
import sys
from accelbench.__main__ import main
from accelbench.gpu_day import day
from accelbench.commands import gpu_day as command
from accelbench.gpu_day.process import Command
from accelbench.gpu_day.stages import DayStage

wait = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
day.STAGES = {"probe": DayStage("probe", "a wait", 60, lambda plan: [Command(wait, plan.out)])}
command._card = lambda: "a card"
sys.exit(main(["gpu-day", "--stages", "probe", "--out", sys.argv[1]]))
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_stage_and_prints_the_table(tmp_path: Path, signum: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SIGNALLED, tmp_path / "day"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "begun" in line:
            break
    process.send_signal(signum)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "probe" in output
    assert states(tmp_path / "day") == {"probe": "interrupted"}


def short_stages_without_tests_are_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stages, "GPU_TESTS", tmp_path / "nothing")
    for name in ("tests", "sanitizer"):
        with pytest.raises(StageUnavailable, match="tests"):
            STAGES[name].commands(DayPlan(tmp_path))


def test_the_first_stage_has_kernels_and_vendor_libraries_of_the_suite() -> None:
    first = make_plan((), load_suite("gpu-first"), "gpu", (), None)
    all_kernels = {str(point) for point in make_plan((), load_suite("kernels"), "gpu", (), None)}
    assert {str(point) for point in first} <= all_kernels
    impls = {(p.params.get("impl"), p.params.get("dtype")) for p in first if p.benchmark == "matmul"}
    assert {("vendor", "float32"), ("numba", "float32"), ("vendor", "bfloat16"), ("wgmma", "bfloat16")} <= impls


def test_key_results_are_compared_with_the_vendor_library(tmp_path: Path) -> None:
    run = make_run(tmp_path / "rich", rich_records())
    found = {result.point: result for result in key_results(run)}
    assert all(result.value for result in found.values())
    matmuls = [result for point, result in found.items() if point.startswith("matmul")]
    assert any("vendor" in result.reference for result in matmuls), matmuls
