"""`accelbench reproduce` as a user types it: what it prints and writes, and what it refuses."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.commands.reproduce import interrupted
from accelbench.execution.store import RunStore, Settings
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.report.joined import read_runs
from accelbench.reproduce.claims_page import render
from accelbench.reproduce.judging import StudyVerdicts, judge
from accelbench.reproduce.paper import load_paper
from accelbench.reproduce.terminal_claims import print_judgement
from accelbench.results.forecast import forecast, of_machine, past_seconds
from accelbench.workloads.data import CACHE_VARIABLE
from tests.conftest import Run as Command
from tests.fixtures.made_up_runs import card, machine, searched, trained
from tests.fixtures.report_runs import make_run


def lstm(device: str, seconds: float, units: int = 128, **changes: object) -> Record:
    return trained("bilstm-har", device, seconds, units=units, layers=2, batch=64, **changes)


def of_kimm(*paths: str) -> StudyVerdicts:
    """The verdicts on the claims of a paper, by the runs at these paths."""
    return judge(load_paper("kimm2021"), read_runs([RunStore(Path(path)) for path in paths]).runs)


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, RunStore]:
    """A made-up run of a CPU, and one of a GPU that is another machine's, in an own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "data"))
    cpu = [lstm("cpu", seconds, units) for units, seconds in ((16, 0.1), (64, 0.11), (128, 1.0), (256, 4.0))]
    gpu = [lstm("gpu", 0.04, units) for units in (128, 256)]
    cpu_run = make_run(
        tmp_path / "one", [*cpu, searched("cpu", 1.0)], run_id="cpu-1", suite="kimm2021", device="cpu",
        environment=machine(2),
    )  # fmt: skip
    gpu_run = make_run(tmp_path / "two", gpu, run_id="gpu-1", suite="mine", environment=machine(8, [card()]))
    return {"cpu": cpu_run, "gpu": gpu_run}


@pytest.mark.usefixtures("stores")
def test_stored_runs_are_judged_together_and_the_status_is_0_whatever_the_verdicts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["reproduce", "kimm2021", "one", "two"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    judgement = of_kimm("one", "two")
    words = {judged.claim.id: judged.finding.verdict for judged in judgement.claims}
    assert [name for name, word in words.items() if word == "refuted"] == []
    assert [name for name, word in words.items() if word == "confirmed"] == ["K1", "K2", "K3"]
    assert judgement.sentence == "3 confirmed, 7 inconclusive"
    assert "K10b, no verdict" in told
    assert f"kimm2021: {judgement.sentence}" in told
    assert "page runs/reproduce-kimm2021.html" in told
    page = (tmp_path / "runs" / "reproduce-kimm2021.html").read_text(encoding="utf-8")
    assert (page.count('<tr id="K'), page.count('<p class="note" id="K')) == (10, 4)


@pytest.mark.usefixtures("stores")
def test_points_that_decide_nothing_are_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "kimm2021", "one", "--page", "page.html"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "cpu-1 (kimm2021, cpu, 2026-03-14 09:26 UTC): 1 of its 5 points decides no claim of kimm2021: nqueens cpu"
        in told
    )
    assert Path("page.html").is_file()
    assert main(["reproduce", "lawrence2017", "two", "--page", "page.html"]) == 0
    assert "none of its points decides a claim of lawrence2017" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["knuth1968"], "no paper is called 'knuth1968'; there is: carneiro2018, kimm2021"),
        ([], "name a paper: carneiro2018, kimm2021, lawrence2017, msu2021, wang2019"),
        (["sitito2021"], "msu2021"),
        (["kimm2021", "one", "one"], "the run cpu-1 is given as one, twice: give each run once"),
        (["kimm2021", "one", "--small"], "--small is for measuring, and the runs to judge are given"),
        (["kimm2021", "one", "--device", "cpu"], "--device is for measuring"),
        (["kimm2021", "nothing"], "not a run directory"),
        (["kimm2021", "--list"], "--list names every paper: leave out kimm2021"),
        (["kimm2021", "--device", "tpu"], "no TPU"),
        (["mine.toml"], "cannot read the paper mine.toml: No such file"),
    ],
)
def test_wrong_use_of_reproduce_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_damaged_run_is_told_and_is_status_1(stores: dict[str, RunStore], capsys: pytest.CaptureFixture[str]) -> None:
    lines = stores["cpu"].records_path.read_text(encoding="utf-8").splitlines()
    stores["cpu"].records_path.write_text("\n".join([lines[0][:50], *lines[1:]]) + "\n", encoding="utf-8")
    assert main(["reproduce", "kimm2021", "one"]) == 1
    told = capsys.readouterr()
    assert "line 1 is damaged" in told.err
    assert "K2" in told.out
    stores["cpu"].info_path.write_text("{", encoding="utf-8")
    assert main(["reproduce", "kimm2021", "one"]) == 1
    assert main(["reproduce", "kimm2021", "one", "two"]) == 1, "the other run is judged all the same"


def test_the_papers_are_listed_with_their_claims_and_suites(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    told = capsys.readouterr().out
    assert "10 claims and 4 notes; suite kimm2021, on two cores kimm2021-small" in told
    assert "4 claims; suite wang2019-frameworks, on two cores wang2019-frameworks-small, in 2 processes" in told


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal(stores: dict[str, RunStore], width: int) -> None:
    console = PlainConsole(file=io.StringIO(), width=width)
    print_judgement(of_kimm("one", "two"), console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for word in ("confirmed", "inconclusive", "K10d", "K10b"):
        assert any(word in line for line in lines)


@pytest.mark.usefixtures("stores")
def test_the_page_has_published_values_beside_ours_a_drawing_and_the_machines_then_and_now() -> None:
    judgement = of_kimm("one", "two")
    page = render(judgement)
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "MCSoC-2021" in text
    assert "25 × × 25.0 (" in text, "the published ratio stands beside ours"
    assert "Not decided: whether the ratio is 25" in text
    assert "bilstm-har against the number of units" in text
    assert "Tesla K80, one of its two GPUs, by its vendor" in text
    assert "Made-up CPU of 2" in text
    assert "http:" not in re.sub(r'xmlns(:\w+)?="[^"]+"', "", page), "the page fetches nothing"


def test_texts_of_a_run_do_not_act_in_the_page(tmp_path: Path) -> None:
    hostile = lstm("cpu", 1.0, noise=["<script>alert(1)</script>"])
    make_run(tmp_path / "evil", [hostile], run_id="evil", device="cpu", environment=machine(2))
    page = render(of_kimm(str(tmp_path / "evil")))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_an_interrupted_run_of_the_suite_is_found_again(tmp_path: Path) -> None:
    records = [lstm("cpu", 1.0)]
    here = machine(2)
    known = {"device": "cpu", "environment": here, "suite": "kimm2021-small"}
    done = make_run(tmp_path / "done", records, run_id="done", **known)
    broken = make_run(tmp_path / "broken", records, run_id="broken", status="interrupted", **known)
    other = make_run(tmp_path / "other", records, run_id="other", status="interrupted", **known | {"suite": "quick"})
    runs = of_machine([done, broken, other], here)
    assert interrupted(runs, "kimm2021-small", "cpu") is broken
    assert interrupted(runs, "kimm2021-small", "gpu") is None
    assert of_machine([done, broken, other], machine(4)) == [], "another machine's run is ignored"


def test_an_interrupted_run_with_a_former_suite_name_is_found(tmp_path: Path) -> None:
    store = make_run(tmp_path, [], run_id="old", suite="sitito2021-small", device="cpu", status="interrupted")
    assert store.info().suite == "sitito2021-small"
    assert interrupted([(store, store.info())], "msu2021-small", "cpu") is store


def test_the_estimate_says_what_it_rests_on(tmp_path: Path) -> None:
    here = machine(2)
    known = lstm("cpu", 1.0, elapsed_s=100.0)
    make_run(tmp_path / "past", [known], run_id="past", device="cpu", environment=here)
    past = past_seconds(of_machine([RunStore(tmp_path / "past")], here))
    assert {name: took.wall_s for name, took in past.items()} == {str(known.point): pytest.approx(100.8)}
    unknown = [Point("bilstm-har", "cpu", {"units": 512}, "tensorflow"), Point("nqueens", "cpu", {"queens": 12})]
    told = forecast([known.point, *unknown], Settings(max_seconds=3), past).sentence
    assert "1 point in about 1:41 min, by what they took here before" in told
    assert "1 kernel in about 3.00 s, by the sampling time they are allowed" in told
    assert "1 training that this machine has not measured yet, in less than 2.0 h, by the time limits" in told
    timed = forecast([known.point, *unknown], Settings(max_seconds=3), past, usual_s=90).sentence
    assert "2 points that this machine has not measured yet in about 3:00 min, which is what they take on two" in timed
    assert past_seconds(of_machine([RunStore(tmp_path / "past")], machine(4))) == {}


SUITE = """description = "One point"
max_seconds = 0.2
[[benchmark]]
name = "pingpong"
axes = { impl = ["tcp"], bytes = [1024], processes = [2] }
"""
PAPER = """suite = "whole.toml"
small = "one-point.toml"
processes = 2
about = "A study of one small point."
[citation]
authors = "A. Author"
title = "A title"
year = 2020
[[claim]]
id = "X1"
says = "Messages go."
rule = { name = "open", reason = "no published figure", because = "no figure of it was published" }
[[claim.points]]
benchmark = "pingpong"
devices = ["cpu"]
"""


@pytest.mark.slow
def test_a_paper_is_measured_first_and_gone_on_with(accelbench: Command, tmp_path: Path) -> None:
    (tmp_path / "one-point.toml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(PAPER, encoding="utf-8")
    command = ("reproduce", "mine.toml", "--small", "--device", "cpu")
    done = accelbench(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert "measuring one-point on cpu: estimate: 1 kernel in about 200 ms" in told
    assert "mine: 1 inconclusive" in told
    assert "pingpong cpu impl=tcp bytes=1024 processes=2: " in told
    (run,) = (tmp_path / "runs").glob("*/run.json")
    text = run.read_text(encoding="utf-8").replace('"status": "finished"', '"status": "interrupted"', 1)
    run.write_text(text, encoding="utf-8")
    again = accelbench(*command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "going on with runs/" in again.stdout
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1
