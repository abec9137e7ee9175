"""A second user on the same machine: their files have no effect on the runs of this user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.errors import RunBroken, UserError
from accelbench.execution.store import RunStore
from accelbench.pack.write import write_pack
from accelbench.profiling.files import Refused, open_for_appending
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run

pytestmark = [pytest.mark.needs("linux", "root")]

OTHER_USER = 54_321


@contextmanager
def other_user() -> Iterator[None]:
    """Run a block as the other user."""
    os.setegid(OTHER_USER)
    os.seteuid(OTHER_USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def give(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder that both users can enter."""
    for parent in (tmp_path, *tmp_path.parents[:4]):
        if parent.stat().st_uid == 0 and parent != Path("/tmp") and parent != Path("/"):
            parent.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["accelbench.toml", "pyproject.toml"])
def test_their_settings_file_is_refused_before_anything_runs(shared: Path, name: str) -> None:
    table = "tool.accelbench.runs" if name == "pyproject.toml" else "runs"
    (shared / name).write_text(f"[{table}]\nquiet = true\n")
    give(shared / name)
    assert main(["runs"]) == 2


def test_their_run_is_reported_and_its_links_lead_nowhere(shared: Path) -> None:
    make_run(shared / "theirs", [record("matmul")], device="cpu")
    (shared / "mine").write_text("mine")
    for name in ("report.html", "records.csv", "records.parquet", ".lock", ".report.html.new"):
        (shared / "theirs" / name).unlink(missing_ok=True)
        (shared / "theirs" / name).symlink_to(shared / "mine")
    give(shared / "theirs")
    assert main(["report", "theirs"]) == 0
    assert main(["resume", "theirs"]) == 2
    assert (shared / "mine").read_text() == "mine"
    assert not (shared / "theirs" / "report.html").is_symlink()


def test_they_can_read_but_not_change_this_users_run(shared: Path) -> None:
    store = make_run(shared / "mine", [record("matmul")], device="cpu")
    before, records = contents(shared / "mine"), store.records()
    with other_user():
        theirs = RunStore.open(shared / "mine")
        assert theirs.records() == records
        with pytest.raises((UserError, RunBroken)):
            theirs.write_info(theirs.info())
        with pytest.raises((UserError, RunBroken)):
            theirs.append(records[0])
        with pytest.raises(PermissionError):
            open_for_appending(shared / "mine" / "records.jsonl")
    assert contents(shared / "mine") == before


@pytest.mark.parametrize("how", ["theirs", "writable"])
def test_a_cache_that_they_can_write_to_is_not_used(shared: Path, how: str) -> None:
    run = make_run(shared / "run", [record("matmul")], device="cpu")
    (pack,) = write_pack([run], shared / "pack")
    place = shared / "cache" / "accelbench"
    (place / "packs").mkdir(parents=True)
    if how == "theirs":
        give(place)
    else:
        (place / "packs").chmod(0o777)
    assert main(["export", str(pack), "--openmetrics"]) == 2
    assert list((place / "packs").iterdir()) == []


def test_a_second_name_of_a_file_is_not_appended_to(shared: Path) -> None:
    (shared / "mine").write_text("mine")
    os.link(shared / "mine", shared / "log")
    with pytest.raises(Refused):
        open_for_appending(shared / "log")
    assert (shared / "mine").read_text() == "mine"
