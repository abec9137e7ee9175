"""The ceilings of a run of the last hour stand for those of the next: when they do, and that it is said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.plan import ceilings_beside, discover
from accelbench.execution.store import OtherRank, RunStore, Settings
from accelbench.profiling.records.environment import Environment, Limits
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.answer import answer
from accelbench.report.section import Run
from accelbench.results.earlier_ceilings import earlier_ceilings
from tests.conftest import Run as Accelbench
from tests.fixtures.report_records import record, unmeasured
from tests.fixtures.report_runs import environment, make_run

SETTINGS = Settings(max_seconds=3.0)
FAST = record("peak-arith", params={"dtype": "float64", "cores": "all"}, ceiling=True, work=Work(flops=1e9))
COPY = record("stream", params={"op": "copy", "dtype": "float64"}, ceiling=True, work=Work(bytes=1e9))
OTHER = record("stream", params={"op": "triad", "dtype": "float64"}, work=Work(bytes=1.2e9))
WORK = Work(flops=1e12, bytes=1e12)
"""The work of a millisecond that no machine of today can do."""
WANTED = [FAST.point, COPY.point]

Found = Callable[..., list[Record] | None]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    """Return the ceilings that are taken over from one stored run, given what is special of it; None for none."""
    monkeypatch.chdir(tmp_path)

    def look(
        kept: list[Record] | None = None,
        here: Environment | None = None,
        asked: Settings = SETTINGS,
        minutes: float = 5,
        **of_run: Any,
    ) -> list[Record] | None:
        created = datetime.now().astimezone() - timedelta(minutes=minutes)
        fields = {"created": created, "settings": SETTINGS, "device": "cpu"} | of_run
        make_run(Path("runs", "before"), [FAST, COPY, OTHER] if kept is None else kept, **fields)
        earlier = earlier_ceilings(WANTED, asked, "cpu", here or environment())
        return earlier.records if earlier else None

    return look


@pytest.mark.parametrize(
    "special",
    [
        {},
        {"status": "interrupted"},
        {"settings": Settings(max_seconds=15.0)},
        {"settings": Settings(max_seconds=0.5), "asked": Settings(max_seconds=0.5)},
        {"asked": Settings(max_seconds=60.0)},
    ],
    ids=["fresh", "interrupted after them", "sampled longer", "sampled as asked", "as long as the suite of ceilings"],
)
def test_those_of_a_fresh_run_are_taken_over_and_nothing_else_of_it(found: Found, special: dict[str, Any]) -> None:
    assert [str(each.point) for each in found(**special) or ()] == [str(point) for point in WANTED]


@pytest.mark.parametrize(
    "special",
    [
        {"minutes": 61},
        {"status": "running"},
        {"device": "gpu"},
        {"asked": Settings(max_seconds=3.0, rounds=5)},
        {"settings": Settings(max_seconds=0.5)},
        {"kept": [FAST, OTHER]},
        {"kept": [FAST, COPY.model_copy(update={"noise": ["steal: the hypervisor gave 9% to others"]})]},
        {"kept": [FAST, unmeasured("stream", "failed", "it crashed", params={"op": "copy", "dtype": "float64"})]},
        {"here": environment(limits=Limits(cpu_quota=4.0, memory_bytes=128 << 30))},
        {"other_ranks": [OtherRank(rank=1, node=1, environment=environment())]},
    ],
    ids=[
        "old",
        "goes on",
        "other device",
        "rounds",
        "sampled less",
        "not all",
        "disturbed",
        "failed",
        "quota",
        "ranks",
    ],
)
def test_those_that_might_not_be_the_same_now_are_measured_anew(found: Found, special: dict[str, Any]) -> None:
    assert found(**special) is None


def test_a_run_that_cannot_be_read_gives_none(found: Found) -> None:
    assert found()
    Path("runs", "before", "records.jsonl").unlink()
    assert earlier_ceilings(WANTED, SETTINGS, "cpu", environment()) is None


def made(point: Point) -> Record:
    """The record of a point that set a ceiling at 1e15 per second."""
    benchmark = discover()[point.benchmark]
    return record(point.benchmark, params=dict(point.params), figure=benchmark.figure, ceiling=True, work=WORK)


@pytest.mark.slow
def test_a_second_run_measures_no_ceilings_again_and_says_whose_its_shares_are_of(
    accelbench: Accelbench, tmp_path: Path
) -> None:
    words = (
        "run",
        "stream",
        "--param",
        "op=add",
        "--param",
        "dtype=float64",
        "--max-seconds",
        "0.1",
        "--device",
        "cpu",
    )
    assert accelbench(*words, "--no-ceilings", "--out", "here").returncode == 0
    here = RunStore.open(tmp_path / "here").info()
    # Made up, as others may have the CPUs, and what they disturb would rightly be measured again.
    quick = [made(point) for point in ceilings_beside(here.plan)]
    now = {"created": datetime.now().astimezone(), "environment": here.environment, "device": "cpu"}
    make_run(tmp_path / "runs" / "before", quick, **now)
    done = accelbench(*words, "--out", "after")
    assert done.returncode == 0, done.stderr
    said = "he ceilings are those of 20260314-092653-full-a1b2"
    assert f"t{said}" in done.stdout
    run = Run.of(RunStore.open(tmp_path / "after"))
    assert [found.point.benchmark for found in run.records] == ["stream"]
    assert run.rows[0].of_ceiling.value == pytest.approx((run.records[0].rate() or 0) / 1e15, rel=0.01)
    assert f"T{said}" in (answer(run) or pytest.fail("nothing was measured")).believe
    assert f"t{said}" in (tmp_path / "after" / "report.html").read_text(encoding="utf-8")
    assert "op=triad" in accelbench(*words, "--new-ceilings", "--dry-run").stdout
