"""The run store: whatever is damaged is named by its line, and nothing that is whole is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.errors import UserError
from accelbench.plain_text import plain_data
from accelbench.run.store import RunStore, Settings
from profiling.records.record import Record
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_records import record, timing, unmeasured
from tests.fixtures.report_runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    return make_run(tmp_path / "run", rich_records())


def lines(run: RunStore) -> list[bytes]:
    return run.records_path.read_bytes().splitlines(keepends=True)


def test_what_was_appended_is_read_back_and_its_texts_are_plain(tmp_path: Path) -> None:
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


def test_the_rounds_of_a_point_are_one_record_in_the_order_of_the_plan(tmp_path: Path) -> None:
    a, b = record("matmul"), record("stream")
    again = [found.model_copy(update={"round": 2}) for found in (b, a)]
    run = in_rounds(tmp_path / "run", a, b, *again)
    assert [(found.point.benchmark, len(found.rounds)) for found in run.records()] == [("matmul", 2), ("stream", 2)]
    assert [(line.point.benchmark, line.round) for line in run.lines()] == [
        *(("matmul", 1), ("stream", 1), ("stream", 2), ("matmul", 2))
    ]
    assert {(turn.point.benchmark, turn.round) for turn in run.turns_left()} == {("matmul", 3), ("stream", 3)}


def test_of_a_round_that_stands_twice_in_the_file_the_last_counts(tmp_path: Path) -> None:
    a = record("matmul", timing=timing(1e-3))
    twice = [
        a,
        a.model_copy(update={"timing": timing(3e-3)}),
        a.model_copy(update={"round": 2, "timing": timing(2e-3)}),
    ]
    (joined,) = in_rounds(tmp_path / "run", *twice).records()
    assert [found.number for found in joined.rounds] == [1, 2]
    assert joined.rounds[0].summary == timing(3e-3).summary


def test_a_failed_round_ends_its_point_unless_it_is_to_be_tried_again(tmp_path: Path) -> None:
    run = in_rounds(tmp_path / "run", record("matmul"), unmeasured("matmul", "failed", "it crashed", round=2))
    assert run.turns_left() == []
    assert [turn.round for turn in run.turns_left(failed=True)] == [2, 3]
    assert run.left_of(run.info().plan) == run.info().plan


def test_a_skipped_point_has_no_turn_left(tmp_path: Path) -> None:
    run = in_rounds(tmp_path / "run", unmeasured("matmul", "skipped", "no such library"))
    assert run.turns_left(failed=True) == []
    assert run.left_of(run.info().plan) == []


def test_a_round_that_cannot_be_is_named_by_its_line(run: RunStore) -> None:
    first, *rest = lines(run)
    run.records_path.write_bytes(json.dumps(json.loads(first) | {"round": 0}).encode() + b"\n" + b"".join(rest))
    with pytest.raises(UserError, match="line 1 is damaged: round"):
        run.records()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"{}\n", "line 2 has schema version None"),
        (b'{"schema_version": 0}\n', "line 2 has schema version 0; this accelbench reads version 2"),
        (b'{"schema_version": 1}\n', "this accelbench reads version 2: accelbench 0.1 opens it"),
        (b'{"schema_version": 2, "figure": 3}\n', "line 2 is damaged: "),
        (b'["schema_version"]\n', "line 2 has schema version None"),
        (b"\xff\xfe\x00\n", "line 2 is damaged: not JSON"),
        (b"\n", "line 2 is damaged: not JSON"),
    ],
)
def test_an_older_or_damaged_line_is_named(run: RunStore, damage: bytes, message: str) -> None:
    whole = lines(run)
    run.records_path.write_bytes(whole[0] + damage + b"".join(whole[2:]))
    with pytest.raises(UserError, match=r"records\.jsonl ") as error:
        run.records()
    assert message in str(error.value)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_cut_anywhere_costs_the_cut_line_alone(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    run = make_run(tmp_path_factory.mktemp("cut") / "run", rich_records())
    whole, records = run.records_path.read_bytes(), run.records()
    cut = data.draw(st.integers(0, len(whole)))
    run.records_path.write_bytes(whole[:cut])
    run.drop_cut_off_line()
    kept = run.records()
    assert kept == records[: len(kept)]
    assert len(kept) == whole[:cut].count(b"\n")


def test_a_damaged_or_foreign_run_json_is_named(run: RunStore) -> None:
    info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    for text in ("", "{", json.dumps(info | {"schema_version": 99}), json.dumps(info | {"device": "abacus"})):
        (run.path / "run.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"run\.json"):
            run.info()


def test_every_record_agrees_with_the_schema(run: RunStore) -> None:
    properties = Record.model_json_schema()["properties"]
    assert all(json.loads(line).keys() == properties.keys() for line in lines(run))
