"""Tests of the arithmetic in a diagnosis: FLOPs of a step as a share of a ceiling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelbench.diagnosis import _reuse_ceilings, arithmetic_line, new_store, point_of
from accelbench.execution.store import RunStore, Settings, now
from accelbench.profiling.measure.script.events import ScriptStep
from accelbench.profiling.measure.script.judge import timing_of
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Bound, Work


def record(
    point: Point, flops: float, ceiling: bool = False, repetition: int = 1, noise: tuple[str, ...] = ()
) -> Record:
    """Return a record with a rate of 10 executions per second."""
    steps = [ScriptStep(0.1 + 1e-5 * (number % 3), 0.0, 0, False, "plain") for number in range(30)]
    return Record(
        point=point,
        figure="flops" if ceiling else "time",
        bound=Bound("arithmetic", dtype="float32"),
        ceiling=ceiling,
        status="measured",
        started=now(),
        work=Work(flops=flops),
        timing=timing_of(steps),
        round=repetition,
        noise=list(noise),
    )


def run_with(records: list[Record], monkeypatch: pytest.MonkeyPatch, folder: Path) -> RunStore:
    monkeypatch.chdir(folder)
    store = new_store(None, ["python", "train.py"])
    for each in records:
        store.append(each)
    store.write_info(store.info().model_copy(update={"status": "finished"}))
    return store


def test_a_rate_is_a_share_of_the_ceiling_of_an_earlier_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    peak = Point("peak-arith", "cpu", {"dtype": "float32", "cores": "all"})
    earlier = run_with([record(peak, 4e9, True, repetition) for repetition in (1, 2, 3)], monkeypatch, tmp_path)
    earlier.close()
    script = record(point_of("train.py", "cpu"), 1e9)
    store = run_with([script], monkeypatch, tmp_path)
    assert "%" not in arithmetic_line(store, script)
    _reuse_ceilings(store, script)
    found = store.info().earlier_ceilings
    assert found
    assert found.run_id == earlier.info().run_id
    line = arithmetic_line(store, script)
    assert "25" in line
    assert "40" in line
    store.close()


def test_a_noisy_ceiling_limits_the_share(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    peak = Point("peak-arith", "cpu", {"dtype": "float32", "cores": "all"})
    script = record(point_of("train.py", "cpu"), 1e9)
    store = run_with([script, record(peak, 4e9, True, noise=("other load",))], monkeypatch, tmp_path)
    store.write_info(store.info().model_copy(update={"settings": Settings(ceilings=True)}))
    assert re.search(r"at most 25\S* ?%", arithmetic_line(store, script))
    store.close()
