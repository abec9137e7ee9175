"""The run store: whatever is damaged is named by its line, and nothing that is whole is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.errors import UserError
from accelbench.run.store import RunStore
from profiling.records.record import Record
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    return make_run(tmp_path / "run", rich_records())


def lines(run: RunStore) -> list[bytes]:
    return run.records_path.read_bytes().splitlines(keepends=True)


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    run = make_run(tmp_path / "empty", [])
    for record in rich_records():
        run.append(record)
    assert run.records() == rich_records()


def test_the_last_record_of_a_point_counts(run: RunStore) -> None:
    first = run.records()[0]
    run.append(first.model_copy(update={"status": "failed", "reason": "measured again"}))
    assert len(run.records()) == len(rich_records())
    assert next(r for r in run.records() if str(r.point) == str(first.point)).reason == "measured again"


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
