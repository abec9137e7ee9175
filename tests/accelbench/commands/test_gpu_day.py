"""A GPU's day by stages of our own, which take seconds and no GPU: what is run, repeated, gone on with and left out."""

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
from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.gpu_day import day, stages
from accelbench.gpu_day.day import DayOptions, chosen_stages, run_day
from accelbench.gpu_day.outcome import figures
from accelbench.gpu_day.process import Command, run_limited
from accelbench.gpu_day.stages import STAGES, WANTED, DayPlan, DayStage, StageUnavailable
from accelbench.output.console import PlainConsole
from tests.conftest import OWN_BENCHMARKS, ROOT, environment, info, records
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_runs import make_run

CARD = "NVIDIA H100 80GB HBM3 0123456789ab"
DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def script(text: str, folder: Path) -> Command:
    return Command([sys.executable, "-c", text], folder)


def stage_of(name: str, text: str) -> DayStage:
    """A stage that runs a line of Python in the day's folder."""
    return DayStage(name, "a line of Python", 60, lambda plan: [script(text, plan.out)])


@pytest.fixture
def our_stages(monkeypatch: pytest.MonkeyPatch) -> dict[str, DayStage]:
    """Each notes that it ran; one breaks, and one cannot be here."""

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
    """Run a day in a folder and return its exit status and what it printed."""

    def run(card: str = CARD, **options: Any) -> tuple[int, str]:
        console = PlainConsole(file=io.StringIO(), width=160)
        status = run_day(DayPlan(tmp_path), DayOptions(**options), card, console)
        return status, console.file.getvalue()  # type: ignore[attr-defined]

    return run


def states(folder: Path) -> dict[str, str]:
    stages = json.loads((folder / "day.json").read_text(encoding="utf-8"))["stages"]
    return {name: entry["state"] for name, entry in stages.items()}


@pytest.mark.usefixtures("our_stages")
def test_a_stage_that_fails_does_not_stop_the_next(run: Run, tmp_path: Path) -> None:
    status, said = run()
    assert status == 1
    assert states(tmp_path) == {"probe": "done", "tests": "failed", "sanitizer": "skipped", "rest": "done"}
    assert "2 failed, 3 passed" in said
    assert "there is no such place" in said


@pytest.mark.usefixtures("our_stages")
def test_what_is_finished_is_repeated_only_if_asked_for(run: Run, tmp_path: Path) -> None:
    run()
    run()
    assert (tmp_path / "ran").read_text() == "probe tests rest "
    run(again=["tests"])
    assert (tmp_path / "ran").read_text() == "probe tests rest tests "


@pytest.mark.usefixtures("our_stages")
def test_stages_can_be_chosen_and_ordered(run: Run, tmp_path: Path) -> None:
    assert run(stages=["rest", "probe"])[0] == 0
    assert (tmp_path / "ran").read_text() == "rest probe "


@pytest.mark.slow
def test_a_stage_whose_time_is_over_is_gone_on_with(our_stages: dict[str, DayStage], run: Run, tmp_path: Path) -> None:
    slow_once = "import pathlib, time; p = pathlib.Path('there'); n = 99 * (not p.exists()); p.touch(); time.sleep(n)"
    our_stages["tests"] = stage_of("tests", slow_once)
    assert run(limits={"tests": 5.0})[0] == 1
    assert states(tmp_path)["tests"] == "out of time"
    assert states(tmp_path)["rest"] == "done"
    assert run()[0] == 0
    assert states(tmp_path)["tests"] == "done"


@pytest.mark.usefixtures("our_stages")
def test_a_spent_budget_leaves_the_rest_for_the_next_call(run: Run, tmp_path: Path) -> None:
    assert run(budget=60, stages=["probe", "rest"])[0] == 1
    assert states(tmp_path) == {"probe": "not reached", "rest": "not reached"}
    assert run(stages=["probe", "rest"])[0] == 0


def test_where_time_is_short_the_figures_come_before_the_tests() -> None:
    assert [stage.name for stage in chosen_stages(DayOptions())] == list(STAGES)
    assert [stage.name for stage in chosen_stages(DayOptions(budget=540))] == list(WANTED)
    assert [stage.name for stage in chosen_stages(DayOptions(budget=7200))] == list(STAGES)
    assert set(WANTED) == set(STAGES)
    assert sum(stage.seconds for stage in STAGES.values()) == 30 * 60


@pytest.mark.parametrize(
    "options", [{"stages": ["frist"]}, {"limits": {"frist": 5.0}}, {"again": ["frist"]}], ids=lambda w: next(iter(w))
)
def test_a_stage_that_does_not_exist_is_named(run: Run, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="no stage is called 'frist': there is probe, tests, first, train"):
        run(**options)


@pytest.mark.usefixtures("our_stages")
def test_another_cards_day_is_not_gone_on_with(run: Run, tmp_path: Path) -> None:
    run()
    with pytest.raises(UserError, match="holds the day of another card"):
        run(card="Tesla T4 ba9876543210")
    (tmp_path / "day.json").write_text("{}")
    with pytest.raises(UserError, match=r"day\.json is damaged"):
        run()


@pytest.mark.slow
def test_a_command_that_does_not_listen_is_killed_with_what_it_started(tmp_path: Path) -> None:
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {DEAF!r}])"
    outcome = run_limited(script(text, tmp_path), tmp_path / "log", seconds=3, grace_s=1)
    assert outcome.status is None
    assert "deaf" in (tmp_path / "log").read_text()


def behaving(plan: DayPlan) -> list[Command]:
    """A real run on the CPU, of six points."""
    if (plan.out / "first" / "run.json").exists():
        return [stages.python("accelbench", "resume", plan.out / "first", folder=ROOT)]
    options = ("--param", "us=100,101,102,103,104,105", "--no-ceilings", "--max-seconds", "2", "--device", "cpu")
    return [stages.python("accelbench", "run", "behave", *options, "--out", plan.out / "first", folder=ROOT)]


@pytest.mark.slow
def test_a_run_whose_time_is_over_is_resumed_and_in_the_table_and_the_pack(
    our_stages: dict[str, DayStage], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELBENCH_PATH", str(OWN_BENCHMARKS))
    our_stages["first"] = DayStage("first", "a run", 8, behaving)
    status, said = run(stages=["first"])
    assert status == 1
    assert states(tmp_path) == {"first": "out of time"}
    assert info(tmp_path / "first")["status"] == "interrupted"
    before = records(tmp_path / "first")
    assert len(before) < 6
    assert "not reached" in said
    status, said = run(stages=["first"], limits={"first": 240.0})
    assert status == 0
    assert "6 of 6 points measured and verified" in said
    assert records(tmp_path / "first")[: len(before)] == before
    assert "packed" in said
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

deaf = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
day.STAGES = {"probe": DayStage("probe", "a wait", 60, lambda plan: [Command(deaf, plan.out)])}
command._card = lambda: "a card"
sys.exit(main(["gpu-day", "--stages", "probe", "--out", sys.argv[1]]))
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_stage_and_shows_the_table(tmp_path: Path, signum: signal.Signals) -> None:
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
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: the same command goes on" in complaint
    assert "probe" in said
    assert states(tmp_path / "day") == {"probe": "interrupted"}


def test_where_the_tests_are_not_there_their_stages_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stages, "GPU_TESTS", tmp_path / "nothing")
    for name in ("tests", "sanitizer"):
        with pytest.raises(StageUnavailable, match="the tests are not here"):
            STAGES[name].commands(DayPlan(tmp_path))


def test_the_first_figures_are_kernels_beside_the_vendors_which_the_rest_need_not_repeat() -> None:
    first = make_plan((), load_suite("gpu-first"), "gpu", (), None)
    all_kernels = {str(point) for point in make_plan((), load_suite("kernels"), "gpu", (), None)}
    assert {str(point) for point in first} <= all_kernels
    impls = {(p.params.get("impl"), p.params.get("dtype")) for p in first if p.benchmark == "matmul"}
    assert {("vendor", "float32"), ("numba", "float32"), ("vendor", "bfloat16"), ("wgmma", "bfloat16")} <= impls


def test_the_table_has_shares_of_peak_of_the_vendor_and_of_issue(tmp_path: Path) -> None:
    run = make_run(tmp_path / "rich", rich_records())
    found = {figure.point: figure for figure in figures(run)}
    assert all(figure.value for figure in found.values())
    matmuls = [figure for point, figure in found.items() if point.startswith("matmul")]
    assert any(figure.beside.endswith("of the vendor's") for figure in matmuls), matmuls
