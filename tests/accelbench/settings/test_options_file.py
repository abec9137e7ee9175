"""Options of a folder: `accelbench.toml` and `[tool.accelbench]`, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from accelbench.__main__ import main

POINTS = ("run", "stream", "--device", "cpu", "--no-ceilings", "--dry-run")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("accelbench.toml", "[run]\nrounds = 7\nparam = 'op=triad'\n"),
        ("pyproject.toml", "[project]\nname = 'x'\n[tool.accelbench.run]\nrounds = 7\nparam = ['op=triad']\n"),
    ],
)
def test_a_file_sets_options_which_are_told(capsys: Captured, folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text)
    assert main([*POINTS]) == 0
    told = capsys.readouterr()
    points = [line for line in told.out.splitlines() if line.startswith("stream")]
    assert points
    assert all("op=triad" in point and point.endswith(", 7 rounds") for point in points)
    assert f"accelbench: {file} sets rounds = 7" in told.err


def test_what_the_command_line_says_counts_more(capsys: Captured, folder: Path) -> None:
    (folder / "accelbench.toml").write_text("[run]\nrounds = 7\n")
    assert main([*POINTS, "--rounds", "2"]) == 0
    assert ", 2 rounds" in capsys.readouterr().out


def test_the_own_file_counts_more_than_that_of_the_project(capsys: Captured, folder: Path) -> None:
    (folder / "accelbench.toml").write_text("[run]\nrounds = 2\n")
    (folder / "pyproject.toml").write_text("[tool.accelbench.run]\nrounds = 7\n")
    assert main([*POINTS]) == 0
    assert ", 2 rounds" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'\n", "[tool.other]\nrounds = 7\n"])
def test_a_project_of_others_sets_nothing(capsys: Captured, folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert main([*POINTS, "--rounds", "2"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[run\n", "accelbench.toml cannot be read: "),
        ("[run]\nround = 3\n", "run has no option 'round': did you mean 'rounds'?"),
        ("[runn]\nrounds = 3\n", "no command is called 'runn': did you mean 'run'?"),
        ("run = 3\n", "accelbench.toml: run must be a table"),
        ("[run]\nrounds = 'many'\n", "'many' is not a valid integer"),
        ("[run]\nrounds = 0\n", "0 is not in the range"),
        ("[run]\nquiet = 'perhaps'\n", "'perhaps' is not a valid boolean"),
        ("[run]\nrounds = [1, 2]\n", "run.rounds is [1, 2]: write one word, number or truth value"),
        ("[run]\nparam = [[1]]\n", "run.param is [[1]]: write one word"),
        ("[run]\nsuite = 2026-01-01\n", "run.suite is datetime.date(2026, 1, 1): write one word"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_measured(
    capsys: Captured, folder: Path, text: str, complaint: str
) -> None:
    (folder / "accelbench.toml").write_text(text)
    assert main([*POINTS]) == 2
    told = capsys.readouterr()
    assert complaint in told.err
    assert told.out == ""


@pytest.mark.parametrize("text", ["tool = 3\n", "[tool]\naccelbench = 3\n", "[tool]\naccelbench = 'x'\n"])
def test_what_is_no_table_is_told(capsys: Captured, folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert main([*POINTS]) == 2
    assert "pyproject.toml: tool" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        (["runs"], "[runs]\ndelete = true\nyes = true\n"),
        (["pair", ".", ".", "matmul"], "[pair]\nb = ['env:LD_PRELOAD=./evil.so']\n"),
        (["run", "matmul"], "[run]\ntrusted-network = true\n"),
        (["run", "matmul"], "[run]\nout = '../../elsewhere'\n"),
        (["run", "matmul"], "[run]\nname = 'x'\n"),
        (["export", "latest"], "[export]\nout = '../../elsewhere'\n"),
    ],
)
def test_a_file_sets_only_what_is_measured(folder: Path, command: list[str], setting: str) -> None:
    (folder / "accelbench.toml").write_text(setting)
    assert main(command) == 2
    assert [path.name for path in folder.iterdir()] == ["accelbench.toml"]


def test_escape_sequences_of_a_file_do_not_reach_the_terminal(capsys: Captured, folder: Path) -> None:
    (folder / "accelbench.toml").write_text('[run]\nparam = "op=\\u001b[2Jtriad"\n')
    main([*POINTS])
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.needs("root")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    (folder / "accelbench.toml").write_text("[run]\nrounds = 7\n")
    os.chown(folder / "accelbench.toml", 65534, 65534)
    assert main([*POINTS]) == 2


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["fifo", "endless"])
def test_what_is_no_regular_file_is_refused(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "accelbench.toml")
    assert main([*POINTS]) == 2
