"""Untrusted `run.json`: points are checked before any process starts, and `trusted_network` is ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelbench.__main__ import main
from accelbench.errors import Damage, UserError
from accelbench.execution.plan import Choice, make_plan, refuse_impossible
from accelbench.execution.store import RunStore, Settings
from accelbench.execution.suite import load_suite
from accelbench.profiling.records.point import Point
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run

STREAM: dict[str, Any] = {"impl": "numba", "op": "copy", "dtype": "float64"}
GOOD: dict[str, Any] = {"benchmark": "stream", "device": "cpu", "params": STREAM}


@pytest.mark.parametrize(
    "change",
    [
        {"device": "../x"},
        {"device": ""},
        {"device": "tpu"},
        {"params": {}},
        {"params": STREAM | {"more": 1}},
        {"params": STREAM | {"impl": "../x"}},
        {"params": STREAM | {"impl": "{point.__class__}"}},
        {"params": STREAM | {"op": 3}},
        {"backend": "torch"},
        {"host_cores": 0},
        {"host_cores": -1},
        {"host_cores": 10**16},
        {"benchmark": "nqueens", "params": {"impl": "numba", "n": -5}},
        {"benchmark": "nqueens", "params": {"impl": "numba", "n": "8"}},
        {"benchmark": "cnn-mnist", "params": {"precision": "float32", "batch": 128}, "backend": "../x"},
    ],
    ids=str,
)
def test_an_impossible_point_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        refuse_impossible([Point(**GOOD | change)])


@pytest.mark.parametrize("suite", ["quick", "full", "kimm2021-small"])
def test_every_point_of_a_suite_is_possible(suite: str) -> None:
    refuse_impossible(make_plan([], load_suite(suite), "cpu", [], None))
    refuse_impossible(make_plan(["cnn-mnist"], None, "cpu", [Choice.parse("batch=3"), Choice.parse("epochs=7")], None))
    refuse_impossible([Point(**GOOD)])


def test_resume_ignores_a_stored_trusted_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.environment.differences.same_machine", lambda *machines: True)
    monkeypatch.setattr("accelbench.session.complete", lambda *asked, **more: 0)
    make_run(tmp_path / "run", [], device="cpu", settings=Settings(trusted_network=True))
    assert main(["resume", str(tmp_path / "run"), "--trusted-network"]) == 0
    assert RunStore.open(tmp_path / "run").info().settings.trusted_network
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert not RunStore.open(tmp_path / "run").info().settings.trusted_network


def test_a_record_without_samples_is_corrupt(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("matmul"), record("stream")], device="cpu")
    first, second = (json.loads(line) for line in store.records_path.read_text().splitlines())
    first["timing"]["samples"] = []
    store.records_path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    with pytest.warns(Damage):
        assert [each.point.benchmark for each in RunStore.open(tmp_path / "run").records()] == ["stream"]
    assert main(["report", str(tmp_path / "run")]) == 1
