"""Tests of the run store: corrupt lines are reported by number, and all valid lines are kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.errors import Damage, UserError
from accelbench.execution.store import RunStore, Settings
from accelbench.output.plain_text import plain_data
from accelbench.profiling.records.record import Record
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_records import record, timing, unmeasured
from tests.fixtures.report_runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    return make_run(tmp_path / "run", rich_records())


def lines(run: RunStore) -> list[bytes]:
    return run.records_path.read_bytes().splitlines(keepends=True)


def test_appended_records_are_read_back_as_plain_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "empty", [])
    for found in rich_records():
        run.append(found)
    expected = [Record.model_validate(plain_data(found.model_dump(mode="json"))) for found in rich_records()]
    assert run.records() == expected
    assert expected != rich_records()


def test_the_last_record_of_a_point_counts(run: RunStore) -> None:
    first = run.records()[0]
    run.append(first.model_copy(update={"status": "failed", "reason": "measured again"}))
    assert len(run.records()) == len(rich_records())
    assert next(r for r in run.records() if str(r.point) == str(first.point)).reason == "measured again"


def in_rounds(path: Path, *measured: Record, rounds: int = 3) -> RunStore:
    points = list({str(found.point): found.point for found in measured}.values())
    run = make_run(path, [], plan=points, settings=Settings(rounds=rounds))
    for order, found in enumerate(measured, start=1):
        run.append(found.model_copy(update={"order": order}))
    return run


def test_repetitions_of_a_point_are_one_record_in_the_order_of_the_plan(tmp_path: Path) -> None:
    a, b = record("matmul"), record("stream")
    again = [found.model_copy(update={"round": 2}) for found in (b, a)]
    run = in_rounds(tmp_path / "run", a, b, *again)
    assert [(found.point.benchmark, len(found.rounds)) for found in run.records()] == [("matmul", 2), ("stream", 2)]
    assert [(line.point.benchmark, line.round) for line in run.lines()] == [
        *(("matmul", 1), ("stream", 1), ("stream", 2), ("matmul", 2))
    ]
    assert {(scheduled.point.benchmark, scheduled.round) for scheduled in run.remaining_runs(run.lines())} == {
        ("matmul", 3),
        ("stream", 3),
    }


def test_the_last_record_of_a_repetition_counts(tmp_path: Path) -> None:
    a = record("matmul", timing=timing(1e-3))
    twice = [
        a,
        a.model_copy(update={"timing": timing(3e-3)}),
        a.model_copy(update={"round": 2, "timing": timing(2e-3)}),
    ]
    (joined,) = in_rounds(tmp_path / "run", *twice).records()
    assert [found.number for found in joined.rounds] == [1, 2]
    assert joined.rounds[0].summary == timing(3e-3).summary


def test_a_failed_repetition_ends_its_point_unless_failed_points_are_repeated(tmp_path: Path) -> None:
    run = in_rounds(tmp_path / "run", record("matmul"), unmeasured("matmul", "failed", "it crashed", round=2))
    assert run.remaining_runs(run.lines()) == []
    assert [scheduled.round for scheduled in run.remaining_runs(run.lines(), again=["failed"])] == [2, 3]
    assert run.unfinished_points(run.info().plan) == run.info().plan


def test_a_skipped_point_has_no_runs_left_unless_skipped_points_are_repeated(tmp_path: Path) -> None:
    run = in_rounds(tmp_path / "run", unmeasured("matmul", "skipped", "no such library"))
    assert run.remaining_runs(run.lines(), again=["failed"]) == []
    assert [scheduled.round for scheduled in run.remaining_runs(run.lines(), again=["failed", "skipped"])] == [1, 2, 3]
    assert run.unfinished_points(run.info().plan) == []


def test_an_invalid_repetition_number_is_reported_by_its_line(run: RunStore) -> None:
    first, *rest = lines(run)
    run.records_path.write_bytes(json.dumps(json.loads(first) | {"round": 0}).encode() + b"\n" + b"".join(rest))
    with pytest.warns(Damage, match="line 1 .*round"):
        assert len(run.records()) == len(rest)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"{}\n", "line 2 has schema version None"),
        (b'{"schema_version": 0}\n', "line 2 has schema version 0"),
        (b'{"schema_version": 1}\n', "accelbench 0.1"),
        (b'{"schema_version": 2, "figure": 3}\n', "line 2 is corrupt: "),
        (b'["schema_version"]\n', "line 2 has schema version None"),
        (b"\xff\xfe\x00\n", "not JSON"),
        (b"\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "nested too deeply"),
        (b'{"schema_version": 2, "round": NaN}\n', "NaN"),
        (
            b'{"schema_version": 2, "round": ' + b"9" * 23 + b"}\n",
            "23 digits",
        ),
    ],
)
def test_an_older_or_corrupt_line_loses_only_its_record(run: RunStore, damage: bytes, message: str) -> None:
    whole, before = lines(run), run.records()
    run.records_path.write_bytes(whole[0] + damage + b"".join(whole[2:]))
    with pytest.warns(Damage, match=re.escape(message)):
        assert run.records() == [before[0], *before[2:]]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_truncation_loses_only_the_last_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    run = make_run(tmp_path_factory.mktemp("cut") / "run", rich_records())
    whole, records = run.records_path.read_bytes(), run.records()
    cut = data.draw(st.integers(0, len(whole)))
    run.records_path.write_bytes(whole[:cut])
    damage = run.set_corrupt_lines_aside()
    kept = run.records()
    assert kept == records[: len(kept)]
    assert len(damage) == (cut > 0 and not whole[:cut].endswith(b"\n"))
    assert len(kept) == whole[:cut].count(b"\n")


def test_a_corrupt_run_json_is_named(run: RunStore) -> None:
    info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    for text in ("", "{", json.dumps(info | {"schema_version": 99}), json.dumps(info | {"device": "abacus"})):
        (run.path / "run.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"run\.json"):
            run.info()


def test_every_record_agrees_with_the_schema(run: RunStore) -> None:
    properties = Record.model_json_schema()["properties"]
    assert all(json.loads(line).keys() == properties.keys() for line in lines(run))


NOT_A_SAMPLE = st.sampled_from([0.0, -1.0, 1e300, "NaN", "Infinity", None, "x", [], {}])


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_an_invalid_sample_is_corrupt(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    run = make_run(tmp_path_factory.mktemp("odd") / "run", [record("matmul"), record("stream")])
    first, second = map(json.loads, lines(run))
    first["timing"]["samples"][data.draw(st.integers(0, 39))] = data.draw(NOT_A_SAMPLE)
    run.records_path.write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    contents = run.contents()
    assert [found.point.benchmark for found in contents.lines] == ["stream"]
    assert re.match(r".* line 1 .*timing\.samples\.\d+", contents.damage[1])


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "2026-01-01T00:00:00", 1e300])
def test_an_invalid_start_time_is_corrupt(run: RunStore, moment: object) -> None:
    first, *_ = lines(run)
    run.records_path.write_text(json.dumps(json.loads(first) | {"started": moment}) + "\n")
    assert re.search("line 1 .*started", run.contents().damage[1])


def test_corrupt_lines_are_moved_unchanged_and_the_run_can_be_resumed(run: RunStore) -> None:
    whole = lines(run)
    run.records_path.write_bytes(whole[0] + b"\xff\xfe\x00\n" + b"".join(whole[1:]) + b'{"cut')
    assert [re.search(r"line \d+", reason)[0] for reason in run.set_corrupt_lines_aside()] == [  # type: ignore[index]
        *("line 2", f"line {len(whole) + 2}")
    ]
    assert lines(run) == whole
    assert (run.path / "records.jsonl.damaged").read_bytes() == b'\xff\xfe\x00\n{"cut\n'
    assert run.set_corrupt_lines_aside() == []
