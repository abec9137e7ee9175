"""Tests of the options file of a folder: `accelbench.toml` and `[tool.accelbench]`."""

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
def test_options_of_a_file_are_used_and_printed(capsys: Captured, folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text)
    assert main([*POINTS]) == 0
    printed = capsys.readouterr()
    points = [line for line in printed.out.splitlines() if line.startswith("stream")]
    assert points
    assert all("op=triad" in point and ", 7 repetitions" in point for point in points)
    assert file in printed.err
    assert "rounds = 7" in printed.err


def test_the_command_line_takes_precedence(capsys: Captured, folder: Path) -> None:
    (folder / "accelbench.toml").write_text("[run]\nrounds = 7\n")
    assert main([*POINTS, "--rounds", "2"]) == 0
    assert ", 2 repetitions" in capsys.readouterr().out


def test_accelbench_toml_takes_precedence_over_pyproject(capsys: Captured, folder: Path) -> None:
    (folder / "accelbench.toml").write_text("[run]\nrounds = 2\n")
    (folder / "pyproject.toml").write_text("[tool.accelbench.run]\nrounds = 7\n")
    assert main([*POINTS]) == 0
    assert ", 2 repetitions" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'\n", "[tool.other]\nrounds = 7\n"])
def test_a_file_without_a_table_sets_nothing(capsys: Captured, folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert main([*POINTS, "--rounds", "2"]) == 0
    assert capsys.readouterr().err == ""


BROKEN = "[project]\nversion = 1.0.0\n"


def test_an_invalid_file_of_other_tools_is_ignored_with_a_warning(capsys: Captured, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(BROKEN)
    assert main([*POINTS, "--rounds", "2"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("accelbench: pyproject.toml")


@pytest.mark.parametrize("table", ["[tool.accelbench.run]\n", "[tool.'accelbench'.run]\n"])
def test_an_invalid_file_with_a_table_is_an_error(capsys: Captured, folder: Path, table: str) -> None:
    (folder / "pyproject.toml").write_text(BROKEN + table)
    assert main([*POINTS]) == 2
    assert "pyproject.toml" in capsys.readouterr().err


def test_a_byte_order_mark_is_ignored(capsys: Captured, folder: Path) -> None:
    (folder / "accelbench.toml").write_text("[run]\nrounds = 7\n", encoding="utf-8-sig")
    assert main([*POINTS]) == 0
    assert ", 7 repetitions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[run\n", ["accelbench.toml"]),
        ("[run]\nround = 3\n", ["'round'", "did you mean 'rounds'?"]),
        ("[runn]\nrounds = 3\n", ["'runn'", "did you mean 'run'?"]),
        ("run = 3\n", ["accelbench.toml: run"]),
        ("[run]\nrounds = 'many'\n", ["'many'"]),
        ("[run]\nrounds = 0\n", ["rounds", "0"]),
        ("[run]\nquiet = 'perhaps'\n", ["'perhaps'"]),
        ("[run]\nrounds = [1, 2]\n", ["run.rounds", "[1, 2]"]),
        ("[run]\nparam = [[1]]\n", ["run.param", "[[1]]"]),
        ("[run]\nsuite = 2026-01-01\n", ["run.suite"]),
        ("[run]\nquiet = 1\n", ["run.quiet"]),
        ("[run]\nrounds = inf\n", ["'inf'"]),
        ("[run]\nrounds = 1.5\n", ["'1.5'"]),
        ("[run]\nrounds = true\n", ["run.rounds"]),
    ],
)
def test_an_invalid_file_is_an_error_that_names_the_option(
    capsys: Captured, folder: Path, text: str, keys: list[str]
) -> None:
    (folder / "accelbench.toml").write_text(text)
    assert main([*POINTS]) == 2
    printed = capsys.readouterr()
    assert all(key in printed.err for key in keys)
    assert printed.out == ""


@pytest.mark.parametrize("text", ["tool = 3\n", "[tool]\naccelbench = 3\n", "[tool]\naccelbench = 'x'\n"])
def test_a_value_in_place_of_a_table_is_an_error(capsys: Captured, folder: Path, text: str) -> None:
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
def test_other_options_are_not_allowed_in_a_file(folder: Path, command: list[str], setting: str) -> None:
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
def test_an_irregular_file_is_refused(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "accelbench.toml")
    assert main([*POINTS]) == 2


def test_kernels_have_three_repetitions_by_default(capsys: Captured, folder: Path) -> None:
    assert main([*POINTS]) == 0
    assert ", 3 repetitions" in capsys.readouterr().out
    (folder / "own.toml").write_text('description = "d"\n[[benchmark]]\nname = "stream"\n')
    assert main(["run", "--suite", "own.toml", *POINTS[2:]]) == 0
    assert ", 3 repetitions" in capsys.readouterr().out
