"""Tests of untrusted run directories: reading or resuming one changes no other file, runs nothing and does not hang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.errors import DataDamaged, UserError
from accelbench.execution.store import RunStore
from tests.fixtures.report_runs import make_run

LINKED = ("records.jsonl.damaged", "records.jsonl", "run.json", ".lock", "logs", "logs/x.log", "traces")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    make_run(tmp_path / "foreign", [], run_id="foreign")
    return tmp_path / "foreign"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("mine")
    return tmp_path / "victim"


@pytest.mark.parametrize("name", LINKED)
def test_a_run_with_a_link_is_not_resumed(foreign: Path, victim: Path, name: str) -> None:
    place = foreign / name
    place.parent.mkdir(exist_ok=True)
    if name == "run.json":
        shutil.copy(place, victim)
    content = victim.read_bytes()
    place.unlink(missing_ok=True)
    place.symlink_to(victim)
    with (foreign / "records.jsonl").open("a") as file:
        if name != "records.jsonl":
            file.write("touch /tmp/owned #\n")
    content = content if name != "records.jsonl" else victim.read_bytes()
    with pytest.raises(UserError):
        RunStore.open(foreign).lock()
    assert main(["resume", str(foreign)]) in (1, 2)
    assert victim.read_bytes() == content


@pytest.mark.parametrize("name", ["run.json", "records.jsonl"])
@pytest.mark.parametrize(
    "replace",
    [
        pytest.param(os.mkfifo, id="fifo"),
        pytest.param(lambda path: os.symlink("/dev/zero", path), id="endless"),
        pytest.param(os.mkdir, id="folder"),
    ],
)
def test_an_irregular_file_is_an_error(foreign: Path, name: str, replace: Callable[[Path], None]) -> None:
    (foreign / name).unlink()
    replace(foreign / name)
    with pytest.raises(UserError):  # `DataDamaged` for an irregular records.jsonl
        RunStore.open(foreign).records()


def test_a_sparse_run_json_is_corrupt(foreign: Path) -> None:
    os.truncate(foreign / "run.json", 9 << 30)
    with pytest.raises(DataDamaged):
        RunStore.open(foreign).info()


def test_a_line_of_gigabytes_is_corrupt(foreign: Path) -> None:
    os.truncate(foreign / "records.jsonl", 2 << 30)
    with pytest.raises(DataDamaged):
        RunStore.open(foreign).records()
