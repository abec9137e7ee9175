"""A test whose requirement is missing is skipped with one kind of reason, and the last line names what was missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import requirements
from tests.conftest import ROOT, environment
from tests.requirements import DETAIL, REQUIREMENTS, require, summarize

MADE_UP = """
import pytest
from tests.requirements import REQUIREMENTS, Requirement, not_tested

REQUIREMENTS["absent"] = Requirement("Absent", lambda: False, "apt install absent")
REQUIREMENTS["fickle"] = Requirement("Fickle")

@pytest.fixture
def resource():
    pytest.exit("a fixture was made for a test that is skipped")

@pytest.mark.parametrize("value", [1, pytest.param(2, marks=pytest.mark.needs("absent"))])
def test_one_value_needs_it(value):
    assert value == 1

@pytest.mark.needs("fickle", "absent")
def test_with_a_fixture(resource):
    pass

@pytest.mark.needs("fickle")
def test_needs_what_does_not_start():
    not_tested("fickle", "it does not start")
"""
WRONG = """
def test_does_not_declare_it():
    not_tested("fickle", "it does not start")

@pytest.mark.needs("misspelt")
def test_needs_what_nobody_declared():
    pass
"""


def run(folder: Path, source: str, *options: str) -> str:
    file = folder / "test_made_up.py"
    file.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "tests.conftest", file, *options]
    variables = environment(CI=None)
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, encoding="utf-8").stdout


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_one_line_names_what_was_not_tested(tmp_path: Path, processes: str) -> None:
    said = run(tmp_path, MADE_UP, "--numprocesses", processes)
    assert re.search(r"\b1 passed, 3 skipped\b", said), said
    assert "\nNot tested: 2 tests need Absent (apt install absent), 1 Fickle\n" in said
    assert said.count("Absent") == 1


@pytest.mark.slow
def test_what_is_installed_is_tested_again_by_the_marker(tmp_path: Path) -> None:
    said = run(tmp_path, MADE_UP.replace("lambda: False", "lambda: True"), "-m", "needs", "-k", "not fixture")
    assert re.search(r"\b1 failed, 1 skipped, 2 deselected\b", said), said
    assert "Not tested: 1 test needs Fickle\n" in said


@pytest.mark.slow
def test_a_skip_without_the_marker_and_an_unknown_requirement_are_errors(tmp_path: Path) -> None:
    said = run(tmp_path, MADE_UP + WRONG, "-k", "declare")
    assert re.search(r"\b1 failed, 4 deselected, 1 error\b", said), said
    assert re.search(r"FAILED .*test_does_not_declare_it", said)
    assert re.search(r"ERROR .*test_needs_what_nobody_declared", said)
    assert "Not tested" not in said


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ([], ""),
        (["Skipped: needs A (a): why"], "Not tested: 1 test needs A (a)"),
        (["Skipped: needs B", "Skipped: needs A", "Skipped: needs A: why"], "Not tested: 2 tests need A, 1 B"),
        (["Skipped: anything", "Skipped: else"], "Not tested: 2 tests for other reasons (pytest -rs)"),
    ],
)
def test_skips_are_counted_by_what_they_need(reasons: list[str], line: str) -> None:
    assert summarize(reasons) == line


@pytest.mark.parametrize(
    ("variables", "outcome"), [({}, pytest.skip.Exception), ({"CI": "true"}, pytest.fail.Exception)]
)
def test_in_continuous_integration_a_browser_must_be_there(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], outcome: type[BaseException]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(requirements, "is_met", lambda key: key not in ("chromium", "torch"))
    with pytest.raises(outcome):
        require("chromium")
    with pytest.raises(pytest.skip.Exception):
        require("torch")
    require("gcc")


def test_no_requirement_is_taken_for_a_detail() -> None:
    assert not [key for key, requirement in REQUIREMENTS.items() if DETAIL in str(requirement)]


def test_every_test_declares_what_it_needs_in_this_one_way() -> None:
    others = re.compile(r"pytest\.(skip|importorskip)\(|mark\.skip|raise .*SkipTest")
    exempt = {Path(requirements.__file__), Path(__file__)}
    files = set((ROOT / "tests").rglob("*.py")) - exempt
    assert [str(file) for file in files if others.search(file.read_text(encoding="utf-8"))] == []
