"""Tests of reused ceilings: conditions and messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.plan import discover, needed_ceilings
from accelbench.execution.store import EarlierCeilings, OtherRank, RunStore, Settings
from accelbench.profiling.records.environment import Environment, Limits
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.answer import answer
from accelbench.report.section import Run
from accelbench.results.earlier_ceilings import best_ceilings, earlier_ceilings
from tests.conftest import Run as Accelbench
from tests.fixtures.report_records import record, unmeasured
from tests.fixtures.report_runs import environment, make_run

SETTINGS = Settings(max_seconds=3.0)
FAST = record("peak-arith", params={"dtype": "float64", "cores": "all"}, ceiling=True, work=Work(flops=1e9))
COPY = record("stream", params={"op": "copy", "dtype": "float64"}, ceiling=True, work=Work(bytes=1e9))
OTHER = record("stream", params={"op": "triad", "dtype": "float64"}, work=Work(bytes=1.2e9))
WORK = Work(flops=1e12, bytes=1e12)
"""Work per millisecond beyond any current machine."""
WANTED = [FAST.point, COPY.point]

Found = Callable[..., list[Record] | None]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    """Return a function that returns the ceilings reused from one stored run with the given properties, or None."""
    monkeypatch.chdir(tmp_path)

    def look(
        kept: list[Record] | None = None,
        here: Environment | None = None,
        requested: Settings = SETTINGS,
        minutes: float = 5,
        **of_run: Any,
    ) -> list[Record] | None:
        created = datetime.now().astimezone() - timedelta(minutes=minutes)
        fields = {"created": created, "settings": SETTINGS, "device": "cpu"} | of_run
        make_run(Path("runs", "before"), [FAST, COPY, OTHER] if kept is None else kept, **fields)
        earlier = earlier_ceilings(WANTED, requested, "cpu", here or environment())
        return earlier.records if earlier else None

    return look


@pytest.mark.parametrize(
    "special",
    [
        {},
        {"status": "interrupted"},
        {"settings": Settings(max_seconds=15.0)},
        {"settings": Settings(max_seconds=0.5), "requested": Settings(max_seconds=0.5)},
        {"requested": Settings(max_seconds=60.0)},
    ],
    ids=["recent", "interrupted", "sampled longer", "sampled as requested", "as long as the suite of ceilings"],
)
def test_ceilings_of_a_recent_run_are_reused(found: Found, special: dict[str, Any]) -> None:
    assert [str(each.point) for each in found(**special) or ()] == [str(point) for point in WANTED]


@pytest.mark.parametrize(
    "special",
    [
        {"minutes": 61},
        {"status": "running"},
        {"device": "gpu"},
        {"requested": Settings(max_seconds=3.0, rounds=5)},
        {"settings": Settings(max_seconds=0.5)},
        {"kept": [FAST, OTHER]},
        {"kept": [FAST, COPY.model_copy(update={"noise": ["steal: the hypervisor gave 9% to others"]})]},
        {"kept": [FAST, unmeasured("stream", "failed", "it crashed", params={"op": "copy", "dtype": "float64"})]},
        {"here": environment(limits=Limits(cpu_quota=4.0, memory_bytes=128 << 30))},
        {"other_ranks": [OtherRank(rank=1, node=1, environment=environment())]},
    ],
    ids=[
        "old",
        "running",
        "other device",
        "repetitions",
        "sampled less",
        "not all",
        "noisy",
        "failed",
        "quota",
        "ranks",
    ],
)
def test_ceilings_of_an_unsuitable_run_are_not_reused(found: Found, special: dict[str, Any]) -> None:
    assert found(**special) is None


def test_an_unreadable_run_is_ignored(found: Found) -> None:
    assert found()
    Path("runs", "before", "records.jsonl").unlink()
    assert earlier_ceilings(WANTED, SETTINGS, "cpu", environment()) is None


def made(point: Point) -> Record:
    """Return the record of a point that sets a ceiling of 1e15 per second."""
    benchmark = discover()[point.benchmark]
    return record(point.benchmark, params=dict(point.params), figure=benchmark.metric, ceiling=True, work=WORK)


@pytest.mark.slow
def test_a_second_run_reuses_the_ceilings_and_names_their_run(accelbench: Accelbench, tmp_path: Path) -> None:
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
    # Synthetic: ceilings measured during other tests may be noisy, and would be measured again.
    quick = [made(point) for point in needed_ceilings(here.plan)]
    now = {"created": datetime.now().astimezone(), "environment": here.environment, "device": "cpu"}
    make_run(tmp_path / "runs" / "before", quick, **now)
    done = accelbench(*words, "--out", "after")
    assert done.returncode == 0, done.stderr
    earlier = "20260314-092653-full-a1b2"
    assert earlier in done.stdout
    run = Run.of(RunStore.open(tmp_path / "after"))
    assert [found.point.benchmark for found in run.records] == ["stream"]
    assert run.rows[0].of_ceiling.value == pytest.approx((run.records[0].rate() or 0) / 1e15, rel=0.01)
    assert earlier in (answer(run) or pytest.fail("nothing was measured")).confidence
    assert earlier in (tmp_path / "after" / "report.html").read_text(encoding="utf-8")
    assert "op=triad" in accelbench(*words, "--new-ceilings", "--dry-run").stdout


def copied(rate: float, op: str = "copy", ceiling: bool = True, **fields: Any) -> Record:
    """Return the record of a memory stream with this rate in byte/s."""
    params = {"op": op, "dtype": "float64"}
    seconds = COPY.timing.execution.seconds if COPY.timing else 0.0
    return record("stream", params=params, figure="bytes", ceiling=ceiling, work=Work(bytes=rate * seconds), **fields)


Stored = Callable[..., list[float]]


@pytest.fixture
def best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Return a function that stores runs by name and returns the rates of the best ceilings found in them."""
    monkeypatch.chdir(tmp_path)

    def look(runs: dict[str, Record], here: Environment | None = None, **of_run: Any) -> list[float]:
        for name, kept in runs.items():
            make_run(Path("runs", name), [kept, FAST], run_id=name, **{"device": "cpu"} | of_run)
        found = best_ceilings(WANTED, "cpu", here or environment())
        return [each.records[0].rate("bytes") or 0.0 for each in found]

    return look


def test_the_best_memory_ceiling_of_past_runs_is_found(best: Stored) -> None:
    found = best({"a": copied(40e9), "b": copied(43e9), "c": copied(30e9), "noisy": copied(90e9, noise=["busy"])})
    assert found == [pytest.approx(43e9)]


def test_runs_of_other_hardware_have_no_best_ceiling(best: Stored) -> None:
    assert best({"a": copied(40e9)}, environment(limits=Limits(cpu_quota=4.0, memory_bytes=128 << 30))) == []
    assert best({"b": copied(40e9)}, device="gpu") == [pytest.approx(40e9)], "only of the run on the CPU"


@pytest.mark.parametrize(("today", "ceiling"), [(20e9, 43e9), (41e9, 41e9), (50e9, 50e9)])
def test_memory_below_the_best_of_the_machine_is_reported_and_its_share_is_of_the_best(
    tmp_path: Path, today: float, ceiling: float
) -> None:
    past = EarlierCeilings(run_id="past", created=datetime.now().astimezone(), records=[copied(43e9)])
    triad = copied(today / 2, "triad", ceiling=False)
    run = Run.of(make_run(tmp_path / "run", [copied(today), triad], device="cpu", best_ceilings=[past]))
    assert [row.of_ceiling.value for row in run.rows] == pytest.approx([today / ceiling, today / 2 / ceiling])
    below = ceiling > today
    assert ("47 % of this machine's best, 43.0 GB/s on 2026-" in run.below_best) == below
    assert bool(run.below_best) == below
    assert run.below_best in (answer(run) or pytest.fail("no result")).confidence


def test_a_noisy_memory_ceiling_is_replaced_by_the_best(tmp_path: Path) -> None:
    past = EarlierCeilings(run_id="past", created=datetime.now().astimezone(), records=[copied(43e9)])
    noisy = copied(42e9, noise=["busy"])
    run = Run.of(make_run(tmp_path / "run", [noisy], device="cpu", best_ceilings=[past]))
    assert run.rows[0].of_ceiling.value == pytest.approx(42 / 43)
    assert run.below_best == ""
