"""Tests of the shared secret of a run's ranks."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accelbench.errors import UserError
from accelbench.execution.secret import find_secret, take_secret
from accelbench.profiling.child import SECRET

GIVEN = "0123456789abcdef"


def kept(state: Path) -> Path:
    return state / "accelbench" / "secret"


def variables(state: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(state)}


def test_the_variable_takes_precedence_over_the_file(tmp_path: Path) -> None:
    assert find_secret({SECRET: GIVEN} | variables(tmp_path)) == GIVEN
    assert not kept(tmp_path).exists()


def test_a_secret_is_created_once_and_private(tmp_path: Path) -> None:
    first = find_secret(variables(tmp_path))
    assert len(first) == 64
    assert find_secret(variables(tmp_path)) == first
    assert [file.name for file in kept(tmp_path).parent.iterdir()] == ["secret"]
    assert kept(tmp_path).stat().st_mode & 0o777 == 0o600
    assert kept(tmp_path).parent.stat().st_mode & 0o077 == 0
    assert find_secret(variables(tmp_path / "of another user")) != first


def test_the_default_file_is_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = find_secret({"XDG_STATE_HOME": "not/absolute"})
    assert (tmp_path / ".local" / "state" / "accelbench" / "secret").read_text() == found


def test_concurrent_ranks_find_one_secret(tmp_path: Path) -> None:
    for attempt in range(20):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(find_secret, [variables(tmp_path / str(attempt))] * 8))
        assert len(set(found)) == 1


def test_child_processes_do_not_inherit_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, GIVEN)
    assert take_secret() == GIVEN
    assert SECRET not in os.environ


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_accessible_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    find_secret(variables(tmp_path))
    kept(tmp_path).chmod(mode)
    with pytest.raises(UserError, match="other users"):
        find_secret(variables(tmp_path))


@pytest.mark.needs("root")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    find_secret(variables(tmp_path))
    os.chown(kept(tmp_path), 12345, 12345)
    with pytest.raises(UserError, match="other users"):
        find_secret(variables(tmp_path))


@pytest.mark.parametrize("what", ["a link", "a folder", "a pipe", "nothing in it"])
def test_an_invalid_secret_file_is_refused_with_advice(tmp_path: Path, what: str) -> None:
    file = kept(tmp_path)
    file.parent.mkdir()
    if what == "a link":
        (tmp_path / "elsewhere").write_text(GIVEN)
        file.symlink_to(tmp_path / "elsewhere")
    elif what == "a folder":
        file.mkdir()
    elif what == "a pipe":
        os.mkfifo(file)
    else:
        file.touch(mode=0o600)
    with pytest.raises(UserError, match=SECRET):
        find_secret(variables(tmp_path))


def test_an_unwritable_folder_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=rf"Not a directory.*{SECRET}"):
        find_secret(variables(tmp_path / "file"))


@pytest.mark.parametrize("given", ["", "short", "0123456789abcde"])
def test_a_short_secret_is_refused(given: str) -> None:
    with pytest.raises(UserError, match="16 characters"):
        find_secret({SECRET: given})
