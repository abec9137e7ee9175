"""A run whose every text is hostile is shown by every command, and no text of it does anything."""

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
ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FIXED = {"device", "schema_version", "created", "started", "uuid_hash"}


def schema_words(schema: Any) -> set[str]:
    """The words that the fields of a schema may be one of, which cannot be anything else."""
    if isinstance(schema, dict):
        found = {str(word) for word in (*schema.get("enum", ()), schema.get("const", ""))}
        return found.union(*map(schema_words, schema.values()))
    return set().union(*map(schema_words, schema)) if isinstance(schema, list) else set()


WORDS = schema_words(RunInfo.model_json_schema()) | schema_words(Record.model_json_schema())


def spoiled(data: Any, schema: set[str], field: str = "") -> Any:
    """The data with the hostile text at the end of every text, and of every name that is not the schema's."""
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
    """The names of all fields of a schema."""
    if isinstance(schema, dict):
        return set(schema.get("properties", ())).union(*map(field_names, schema.values()))
    return set().union(*map(field_names, schema)) if isinstance(schema, list) else set()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of a stranger, who wrote what he liked wherever a text may stand."""
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


def said(*arguments: object) -> str:
    """What a command prints to a terminal that shows colours; its own colours are taken out."""
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False, color=True)
    return re.sub(r"\x1b\[[\d;]*m", "", result.output)


def check(shown: str) -> None:
    """Nothing in it acts, and it is shown as the text that it is."""
    assert not ACTING.search(shown)
    assert "[red]x[/red]" in re.sub(r"\s", "", shown)


@pytest.mark.slow
def test_no_text_of_a_foreign_run_acts_in_the_terminal_the_page_or_the_tables(hostile: list[Path]) -> None:
    check(said("report", hostile[0]))
    page = (hostile[0] / "report.html").read_text()
    check(Tags(page).text)
    assert not ACTING.search(page)
    assert not {"script", "img"} & {tag for tag, _ in Tags(page).tags}
    table = (hostile[0] / "records.csv").read_text()
    assert not ACTING.search(table)
    for line in csv.reader(table.splitlines()):
        for cell in line:
            assert not cell.startswith(("=", "+", "@"))
            assert not cell.startswith("-") or re.fullmatch(r"-[\d.e+-]+", cell)


@pytest.mark.slow
def test_no_text_of_foreign_runs_acts_in_the_report_of_both(hostile: list[Path], tmp_path: Path) -> None:
    check(said("report", *hostile, "--out", tmp_path / "both.html"))
    page = (tmp_path / "both.html").read_text()
    check(Tags(page).text)
    assert not ACTING.search(page)
    assert not {"script", "img"} & {tag for tag, _ in Tags(page).tags}
    assert not ACTING.search((tmp_path / "both.csv").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "history", "pack", "resume", "tensorboard"])
def test_no_text_of_a_foreign_run_acts_in_another_command(
    hostile: list[Path], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if command == "compare":
        check(said("compare", *hostile, "--even-if-disturbed", "--fail-on", "slower:1%"))
    elif command == "history":
        check(said("history", hostile[0].parent))
    elif command == "pack":
        assert not ACTING.search(said("pack", hostile[0], "--out", tmp_path / "a\u202e\x07.tar.xz"))
    else:
        result = CliRunner().invoke(cli, [command, str(hostile[0])])
        assert result.exception is not None
        assert not ACTING.search(result.output)


@pytest.mark.slow
def test_the_names_of_runs_in_a_pack_do_not_act(
    hostile: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    odd = tmp_path / "\x1b[2J\u202eone"
    hostile[0].rename(odd)
    try:
        (pack,) = write_pack([RunStore.open(odd)], tmp_path / "foreign.tar.xz")
    finally:
        odd.rename(hostile[0])
    check(said("report", pack))
