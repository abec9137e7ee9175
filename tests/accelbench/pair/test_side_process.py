"""Protocol violations of a side's process: each raises an error without hanging."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from accelbench.errors import RunBroken, UserError
from accelbench.execution.store import Settings
from accelbench.pair import side_process
from accelbench.pair.server import SidePlan, SideRequest
from accelbench.pair.side import PairSide
from accelbench.pair.side_process import SideProcess
from accelbench.profiling.records.quality import Verification
from tests.fixtures.compare_runs import measured
from tests.fixtures.report_runs import environment

REQUEST = SideRequest(benchmarks=["matmul"], device="cpu", backend=None, choices=[], settings=Settings())
RECORD = measured([1e-3], verification=Verification(passed=True, method="NumPy"))
POINT = RECORD.point
PLANNED = SidePlan(device="cpu", points=[POINT], environment=environment()).model_dump(mode="json")
PLAN = json.dumps({"plan": PLANNED})
SILENT_S = 1.0

Start = Callable[[str, str], SideProcess]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a side that answers with the values of two Python expressions; an empty one sleeps."""

    def run(plan: str, measurement: str) -> SideProcess:
        answers = [
            f"sys.stdout.buffer.write({answer})" if answer else "time.sleep(600)" for answer in (plan, measurement)
        ]
        lines = [f"sys.stdin.readline(); {answer}; sys.stdout.flush()" for answer in answers]
        script = "\n".join(["import json, sys, time", *lines])
        monkeypatch.setattr(PairSide, "command", lambda self, device: [sys.executable, "-c", script])
        return SideProcess(PairSide("A", "."), "cpu")

    monkeypatch.setattr(side_process, "EXIT_SECONDS", SILENT_S)
    return run


INVALID = {
    "no JSON": b"text\n",
    "an array": b"[1]\n",
    "null": b"null\n",
    "a number": b"7\n",
    "not UTF-8": b"\xff\xfe\n",
    "another key": b'{"other": 1}\n',
    "partial line": b'{"plan": ',
    "nested": b"[" * 100_000 + b"\n",
    "nothing": b"",
}


def planned(**fields: object) -> bytes:
    return json.dumps({"plan": PLANNED | fields}).encode() + b"\n"


PLANS = {
    **INVALID,
    "no points": planned(points=[]),
    "no machine": planned(environment=None),
    "an unknown device": planned(device="../x", points=[PLANNED["points"][0] | {"device": "../x"}]),
    "a point of another device": planned(points=[PLANNED["points"][0] | {"device": "gpu"}]),
    "a number that is not stored": planned(points=[PLANNED["points"][0] | {"seed": 10**30}]),
    "half a character": planned(points=[PLANNED["points"][0] | {"benchmark": "\ud800"}]),
}


@pytest.mark.parametrize("answer", PLANS.values(), ids=PLANS.keys())
def test_an_invalid_plan_raises_user_error(start: Start, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setattr(side_process, "PLAN_SECONDS", SILENT_S)
    side = start(repr(answer), "")
    with pytest.raises(UserError):
        side.plan(REQUEST)
    side.close()


def changed(**fields: object) -> bytes:
    """Return the answer with changed fields of the record."""
    return json.dumps({"record": RECORD.model_dump(mode="json") | fields}).encode() + b"\n"


RECORDS = {
    **INVALID,
    "a record of another point": changed(point={"benchmark": "stream", "device": "cpu", "params": {}}),
    "not verified": changed(verification=None),
    "a wrong answer as measured": changed(verification={"passed": False, "method": "x"}),
    "NaN": changed(elapsed_s=float("nan")),
    "half a character": changed(reason="\ud800"),
    "negative": changed(work={"flops": -5.0}),
    "an unknown field": changed(surprise=1),
}


@pytest.mark.parametrize("answer", RECORDS.values(), ids=RECORDS.keys())
def test_an_invalid_record_raises_run_broken(start: Start, answer: bytes) -> None:
    side = start(f"{PLAN.encode()!r} + b'\\n'", repr(answer))
    assert side.plan(REQUEST).points == [POINT]
    with pytest.raises(RunBroken):
        side.measure(0, monotonic() + 20)
    side.close()


def test_a_valid_record_is_returned(start: Start) -> None:
    side = start(f"{PLAN.encode()!r} + b'\\n'", repr(changed()))
    side.plan(REQUEST)
    assert side.measure(0, monotonic() + 20) == RECORD
    side.close()


def test_a_silent_side_is_ended_at_the_deadline(start: Start) -> None:
    side = start(f"{PLAN.encode()!r} + b'\\n'", "")
    side.plan(REQUEST)
    with pytest.raises(RunBroken):
        side.measure(0, monotonic() + SILENT_S)
    side.close()
