"""`accelbench reproduce`: output, files, and errors."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from accelbench.__main__ import main
from accelbench.commands.reproduce import interrupted
from accelbench.environment.session_limits import LimitName
from accelbench.execution.store import RunStore, Settings
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Bound, Work
from accelbench.report.joined import read_runs
from accelbench.reproduce.claims_page import render
from accelbench.reproduce.claims_plot import claims_plot
from accelbench.reproduce.judging import StudyVerdicts, judge
from accelbench.reproduce.paper import PAPERS, load_paper, paper_names, parse_paper
from accelbench.reproduce.terminal_claims import print_judgement
from accelbench.results.forecast import forecast, of_machine, past_seconds
from accelbench.workloads.data import CACHE_VARIABLE
from tests.conftest import Run as Command
from tests.fixtures.made_up_runs import card, machine, run_of, searched, trained
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run


def lstm(device: str, seconds: float, units: int = 128, **changes: object) -> Record:
    return trained("bilstm-har", device, seconds, units=units, layers=2, batch=64, **changes)


def of_kimm(*paths: str) -> StudyVerdicts:
    """Return the verdicts on the claims of kimm2021 by the runs at these paths."""
    return judge(load_paper("kimm2021"), read_runs([RunStore(Path(path)) for path in paths]).runs)


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, RunStore]:
    """Write a synthetic run on a CPU, and one on the GPU of another machine."""
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
def test_stored_runs_are_judged_together_with_status_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "kimm2021", "one", "two"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    judgement = of_kimm("one", "two")
    verdicts = {judged.claim.id: judged.finding.verdict for judged in judgement.claims}
    assert [name for name, verdict in verdicts.items() if verdict == "refuted"] == []
    assert [name for name, verdict in verdicts.items() if verdict == "confirmed"] == ["K1", "K2", "K3"]
    arithmetic = "by arithmetic on published numbers: 1 confirmed"
    assert judgement.sentence == f"by measurement: 3 confirmed, 6 inconclusive; {arithmetic}"
    assert "K10b, no verdict" in printed
    assert f"kimm2021: {judgement.sentence}" in printed
    assert "page runs/reproduce-kimm2021.html" in printed
    page = (tmp_path / "runs" / "reproduce-kimm2021.html").read_text(encoding="utf-8")
    assert (page.count('<tr id="K'), page.count('<p class="note" id="K')) == (9, 5)


@pytest.mark.usefixtures("stores")
def test_unused_points_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "kimm2021", "one", "--page", "page.html"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 of 5 points" in printed
    assert "nqueens cpu" in printed
    assert Path("page.html").is_file()
    assert main(["reproduce", "lawrence2017", "two", "--page", "page.html"]) == 0
    assert "all points are not used" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["knuth1968"], "knuth1968"),
        ([], "lawrence2017, msu2021, paradnn, wang2019"),
        (["sitito2021"], "msu2021"),
        (["kimm2021", "one", "one"], "cpu-1"),
        (["kimm2021", "one", "--small"], "--small"),
        (["kimm2021", "one", "--device", "cpu"], "--device"),
        (["kimm2021", "nothing"], "nothing"),
        (["kimm2021", "--list"], "--list"),
        (["kimm2021", "--device", "tpu"], "no TPU"),
        (["mine.toml"], "mine.toml"),
    ],
)
def test_wrong_use_of_reproduce_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


def test_a_corrupt_run_is_reported_with_status_1(
    stores: dict[str, RunStore], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = stores["cpu"].records_path.read_text(encoding="utf-8").splitlines()
    stores["cpu"].records_path.write_text("\n".join([lines[0][:50], *lines[1:]]) + "\n", encoding="utf-8")
    assert main(["reproduce", "kimm2021", "one"]) == 1
    printed = capsys.readouterr()
    assert "line 1" in printed.err
    assert "K2" in printed.out
    stores["cpu"].info_path.write_text("{", encoding="utf-8")
    assert main(["reproduce", "kimm2021", "one"]) == 1
    assert main(["reproduce", "kimm2021", "one", "two"]) == 1, "the other run is judged"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_studies_are_listed_with_claims_and_suites(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    names = [line.split()[0] for line in lines if not line.startswith("    ")]
    assert names == paper_names()
    printed = " ".join(" ".join(lines).split())
    assert "9 claims and 5 notes" in printed
    assert "kimm2021-small" in printed
    assert "wang2019-frameworks-small, in 2 processes" in printed


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
def test_the_page_has_published_and_measured_values_drawings_and_machines() -> None:
    judgement = of_kimm("one", "two")
    page = render(judgement)
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "MCSoC-2021" in text
    assert "25 × × 25.0 (" in text, "published and measured ratio"
    assert "Not decided: " in text
    assert "bilstm-har against the number of units" in text
    assert "Tesla K80" in text
    assert "Made-up CPU" in text
    assert "http:" not in re.sub(r'xmlns(:\w+)?="[^"]+"', "", page), "self-contained"


def test_recorded_text_is_escaped(tmp_path: Path) -> None:
    hostile = lstm("cpu", 1.0, noise=["<script>alert(1)</script>"])
    make_run(tmp_path / "evil", [hostile], run_id="evil", device="cpu", environment=machine(2))
    page = render(of_kimm(str(tmp_path / "evil")))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_an_interrupted_run_of_the_suite_is_found(tmp_path: Path) -> None:
    records = [lstm("cpu", 1.0)]
    here = machine(2)
    known = {"device": "cpu", "environment": here, "suite": "kimm2021-small"}
    done = make_run(tmp_path / "done", records, run_id="done", **known)
    partial = make_run(tmp_path / "broken", records, run_id="broken", status="interrupted", **known)
    other = make_run(tmp_path / "other", records, run_id="other", status="interrupted", **known | {"suite": "quick"})
    runs = of_machine([done, partial, other], here)
    assert interrupted(runs, "kimm2021-small", "cpu") is partial
    assert interrupted(runs, "kimm2021-small", "gpu") is None
    assert of_machine([done, partial, other], machine(4)) == [], "another machine"


def test_an_interrupted_run_with_a_former_suite_name_is_found(tmp_path: Path) -> None:
    store = make_run(tmp_path, [], run_id="old", suite="sitito2021-small", device="cpu", status="interrupted")
    assert store.info().suite == "sitito2021-small"
    assert interrupted([(store, store.info())], "msu2021-small", "cpu") is store


def test_the_estimate_has_its_basis(tmp_path: Path) -> None:
    here = machine(2)
    known = lstm("cpu", 1.0, elapsed_s=100.0)
    make_run(tmp_path / "past", [known], run_id="past", device="cpu", environment=here)
    past = past_seconds(of_machine([RunStore(tmp_path / "past")], here))
    assert {name: cost.wall_s for name, cost in past.items()} == {str(known.point): pytest.approx(100.8)}
    unknown = [Point("bilstm-har", "cpu", {"units": 512}, "tensorflow"), Point("nqueens", "cpu", {"queens": 12})]
    printed = forecast([known.point], Settings(max_seconds=3), past).sentence
    assert "1:41 min" in printed
    timed = forecast([known.point, *unknown], Settings(max_seconds=3), past, usual_s=90).sentence
    assert "about 3:00 min (as on two CPU cores)" in timed
    assert past_seconds(of_machine([RunStore(tmp_path / "past")], machine(4))) == {}


SUITE = """description = "One point"
max_seconds = 0.2
rounds = 1
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
def test_a_study_is_measured_and_resumed(accelbench: Command, tmp_path: Path) -> None:
    (tmp_path / "one-point.toml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(PAPER, encoding="utf-8")
    command = ("reproduce", "mine.toml", "--small", "--device", "cpu")
    done = accelbench(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = " ".join(done.stdout.split())
    assert "200 ms" in printed
    assert re.search(r"\bmine: .*\b1 inconclusive", printed)
    assert "pingpong cpu impl=tcp bytes=1024 processes=2: " in printed
    (run,) = (tmp_path / "runs").glob("*/run.json")
    text = run.read_text(encoding="utf-8").replace('"status": "finished"', '"status": "interrupted"', 1)
    run.write_text(text, encoding="utf-8")
    again = accelbench(*command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "runs/" in again.stdout
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1


def test_arithmetic_on_published_numbers_is_checked() -> None:
    text = PAPERS.joinpath("lawrence2017.toml").read_text(encoding="utf-8")
    verdicts = [
        judge(parse_paper("p", changed, "p.toml"), []).sentence.partition("published numbers: ")[2]
        for changed in (text, text.replace("result = 61280", "result = 61281"))
    ]
    assert verdicts == ["1 confirmed", "1 refuted"]


@pytest.mark.usefixtures("stores")
def test_the_claims_are_drawn_with_a_row_each_and_a_dot_per_comparison() -> None:
    judgement = of_kimm("one", "two")
    drawing = claims_plot(judgement.claims)
    assert drawing.count('class="bar-title"') == len(judgement.claims)
    dots = sum(len(judged.finding.relative) for judged in judgement.claims)
    assert drawing.count("<circle") == dots > 0
    assert drawing in render(judgement)
    for judged in judgement.claims:
        if judged.claim.rule.name == "ratio" and judged.finding.verdict == "confirmed":
            assert all(each.low > 1 for each in judged.finding.relative)


@pytest.mark.usefixtures("stores")
def test_the_limits_of_a_session_are_shown_next_to_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "carneiro2018", "one", "--format", "json", "--page", "page.html"]) == 0
    facts = json.loads(capsys.readouterr().out)["session"]
    assert {each["limit"]: each["published"] for each in facts if each["published"]} == {
        "duration": "12 h",
        "idle time": "90 min",
        "GPUs": "1, one of the two GPUs of a Tesla K80",
    }
    assert [each["limit"] for each in facts] == list(get_args(LimitName))
    page = Path("page.html").read_text(encoding="utf-8")
    rows = page[page.index('<section id="session"') :].partition("</section>")[0]
    assert rows.count('<th scope="row">') == len(facts)
    for each in facts:
        assert f'<td data-label="on this machine">{each["here"]}</td>' in rows
    assert main(["reproduce", "kimm2021", "one", "--page", "page.html"]) == 0
    assert 'id="session"' not in Path("page.html").read_text(encoding="utf-8")


def test_ceilings_of_the_machines_have_their_flags() -> None:
    noisy = record(
        "peak-arith", figure="flops", work=Work(flops=1e9), ceiling=True, noise=["steal: 9 %"],
        bound=Bound("arithmetic", None, "float32"), params={"dtype": "float32"},
    )  # fmt: skip
    page = render(judge(load_paper("kimm2021"), [run_of(noisy)]))
    machines = page[page.index('id="machines"') :]
    assert '<span class="flag" title="is noisy; steal: 9 %">noisy</span>' in machines
