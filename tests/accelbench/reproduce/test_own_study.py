"""The study of a user in `docs/own-study.md`: its files are valid, and its claims are decided."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelbench.errors import UserError
from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.stored_run import Run
from accelbench.reproduce.judging import judge
from accelbench.reproduce.paper import Paper, load_paper
from tests.conftest import ROOT
from tests.fixtures.made_up_runs import card, machine, run_of
from tests.fixtures.report_records import record, timing

PAGE = (ROOT / "docs/own-study.md").read_text(encoding="utf-8")


@pytest.fixture
def study(tmp_path: Path) -> Paper:
    """Write both files of the page, and load the study by its path."""
    files = re.findall(r"^`([a-z-]+\.toml)`.*?^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(files) == 2
    for name, text in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    return load_paper(str(tmp_path / "my-paper.toml"))


def measured(study: Paper, device: str, speed: float) -> list[Run]:
    """Return three synthetic runs of the study's suite, with half the speed in double precision."""

    def result(name: str, params: dict[str, str | int], speed: float) -> Record:
        twice = 2.0 if params["dtype"] == "float64" else 1.0
        seconds = twice * (int(params.get("n", 1024)) / 1024) ** 3 / speed
        return record(name, device, params=params, timing=timing(seconds), figure="time", work=Work(items=1))

    planned = make_plan((), load_suite(study.suite), device, (), None)
    where = machine(gpus=[card()] if device == "gpu" else [])
    return [
        run_of(*(result(point.benchmark, dict(point.params), speed * wobble) for point in planned), where=where)
        for wobble in (1.0, 1.001, 0.999)
    ]


def test_the_example_is_decided_by_runs_of_its_suite(study: Paper) -> None:
    cpu, gpu = measured(study, "cpu", 1.0), measured(study, "gpu", 10.0)
    alone, both = judge(study, cpu), judge(study, [*cpu, *gpu])
    assert [(judged.claim.id, judged.finding.verdict) for judged in alone.claims] == [
        ("M1", "confirmed"), ("M2", "confirmed"), ("M3", "confirmed"), ("M4", "inconclusive"),
    ]  # fmt: skip
    assert alone.claims[-1].finding.reason == "no such device"
    assert {judged.finding.verdict for judged in both.claims} == {"confirmed"}
    assert not both.notes, "every point of the suite is used"
    slow = judge(study, [*cpu, *measured(study, "gpu", 0.1)])
    assert slow.claims[-1].finding.verdict == "refuted"
    assert "1 confirmed" in slow.sentence.partition("published numbers: ")[2]


def test_without_a_small_suite_the_suite_is_measured(study: Paper) -> None:
    assert not study.small
    assert Path(study.suite).is_file()
    assert load_suite(study.suite).name == "my-suite"


def test_the_error_on_the_page_is_the_error_of_the_command(study: Paper, tmp_path: Path) -> None:
    file = tmp_path / "my-paper.toml"
    file.write_text(file.read_text(encoding="utf-8").replace('"matmul"', '"matmull"', 1), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_paper(str(file))
    assert str(caught.value).removeprefix(f"{tmp_path}/") in " ".join(PAGE.split())
