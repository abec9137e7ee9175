"""Tests that every command shows a run with hostile texts as plain text."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accelbench.__main__ import cli
from accelbench.execution.store import RunInfo, RunStore
from accelbench.pack.write import write_pack
from accelbench.profiling.records.record import Record
from tests.fixtures.report_node import rich_records, study_records
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_profiles import profile
from tests.fixtures.report_records import training
from tests.fixtures.report_runs import make_run

HOSTILE = (
    "=1+1\x1b]0;owned\x07\x1b[2J[red]x[/red]\u202egpj\u2066\x9b31m\r\n[1/1] faked\t"
    "<script>document.title='owned'</script><img src=http://tracker.invalid/x onerror=alert(1)>"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FIXED = {"device", "schema_version", "created", "started", "uuid_hash"}


def schema_words(schema: Any) -> set[str]:
    """Return the literal values of a schema's fields, which validation does not allow to change."""
    if isinstance(schema, dict):
        found = {str(word) for word in (*schema.get("enum", ()), schema.get("const", ""))}
        return found.union(*map(schema_words, schema.values()))
    return set().union(*map(schema_words, schema)) if isinstance(schema, list) else set()


WORDS = schema_words(RunInfo.model_json_schema()) | schema_words(Record.model_json_schema())


def spoiled(data: Any, schema: set[str], field: str = "") -> Any:
    """Return the data with the hostile text in every string, and in every key that the schema does not fix."""
    if isinstance(data, str):
        return data if field in FIXED or data in WORDS else HOSTILE + data
    if isinstance(data, dict) and field == "axes":
        return {HOSTILE + name: value for name, value in data.items()}  # the values are fields of a layout
    if isinstance(data, dict):
        return {
            name if name in schema | WORDS or name.isdecimal() else HOSTILE + name: spoiled(value, schema, name)
            for name, value in data.items()
        }
    return [spoiled(value, schema, field) for value in data] if isinstance(data, list) else data


def field_names(schema: Any) -> set[str]:
    """Return the names of all fields of a schema."""
    if isinstance(schema, dict):
        return set(schema.get("properties", ())).union(*map(field_names, schema.values()))
    return set().union(*map(field_names, schema)) if isinstance(schema, list) else set()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs with hostile text in every possible place."""
    fields = field_names(RunInfo.model_json_schema()) | field_names(Record.model_json_schema())
    found = []
    records = [*rich_records(), *study_records(), training("cpu", "float64", 0.02, profile=profile())]
    for name in ("one", "two"):
        path = make_run(tmp_path_factory.mktemp("runs") / name, records).path
        info = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps(spoiled(info, fields) | {"run_id": f"{HOSTILE}{name}"}))
        lines = (path / "records.jsonl").read_text().splitlines()
        spoilt = [json.dumps(spoiled(json.loads(line), fields)) for line in lines]
        (path / "records.jsonl").write_text("".join(f"{line}\n" for line in spoilt))
        assert len(RunStore.open(path).records()) == len(records)
        found.append(path)
    return found


def output_of(*arguments: object) -> str:
    """Return the output of a command on a colour terminal, without the colour codes of the console."""
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False, color=True)
    return re.sub(r"\x1b\[[\d;]*m", "", result.output)


def check_plain(shown: str) -> None:
    """Assert that the output has no control characters and contains the markup as text."""
    assert not CONTROL.search(shown)
    assert "[red]x[/red]" in re.sub(r"\s", "", shown)


@pytest.mark.slow
def test_report_of_a_hostile_run_is_plain_text(hostile: list[Path]) -> None:
    check_plain(output_of("report", hostile[0]))
    page = (hostile[0] / "report.html").read_text()
    check_plain(Tags(page).text)
    assert not CONTROL.search(page)
    assert not {"script", "img"} & {tag for tag, _ in Tags(page).tags}
    table = (hostile[0] / "records.csv").read_text()
    assert not CONTROL.search(table)
    for line in csv.reader(table.splitlines()):
        for cell in line:
            assert not cell.startswith(("=", "+", "@"))
            assert not cell.startswith("-") or re.fullmatch(r"-[\d.e+-]+", cell)


@pytest.mark.slow
def test_joint_report_of_hostile_runs_is_plain_text(hostile: list[Path], tmp_path: Path) -> None:
    check_plain(output_of("report", *hostile, "--out", tmp_path / "both.html"))
    page = (tmp_path / "both.html").read_text()
    check_plain(Tags(page).text)
    assert not CONTROL.search(page)
    assert not {"script", "img"} & {tag for tag, _ in Tags(page).tags}
    assert not CONTROL.search((tmp_path / "both.csv").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "history", "pack", "resume", "tensorboard"])
def test_other_commands_with_a_hostile_run_print_plain_text(
    hostile: list[Path], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if command == "compare":
        check_plain(output_of("compare", *hostile, "--include-noisy", "--fail-on", "slower:1%"))
    elif command == "history":
        check_plain(output_of("history", hostile[0].parent))
    elif command == "pack":
        assert not CONTROL.search(output_of("pack", hostile[0], "--out", tmp_path / "a\u202e\x07.tar.xz"))
    else:
        result = CliRunner().invoke(cli, [command, str(hostile[0])])
        assert result.exception is not None
        assert not CONTROL.search(result.output)


@pytest.mark.slow
def test_names_of_runs_in_a_bundle_are_plain_text(
    hostile: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    odd = tmp_path / "\x1b[2J\u202eone"
    hostile[0].rename(odd)
    try:
        (pack,) = write_pack([RunStore.open(odd)], tmp_path / "foreign.tar.xz")
    finally:
        odd.rename(hostile[0])
    check_plain(output_of("report", pack))
