"""Tests of test requirements: skips with a uniform reason, and the summary line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import requirements
from tests.conftest import ROOT, environment
from tests.requirements import DETAIL, REQUIREMENTS, require, summarize

SYNTHETIC = """
import pytest
from tests.requirements import REQUIREMENTS, Requirement, not_tested

REQUIREMENTS["absent"] = Requirement("Absent", lambda: False, "apt install absent")
REQUIREMENTS["fickle"] = Requirement("Fickle")

@pytest.fixture
def resource():
    pytest.exit("a fixture was set up for a skipped test")

@pytest.mark.parametrize("value", [1, pytest.param(2, marks=pytest.mark.needs("absent"))])
def test_one_value_needs_it(value):
    assert value == 1

@pytest.mark.needs("fickle", "absent")
def test_with_a_fixture(resource):
    pass

@pytest.mark.needs("fickle")
def test_needs_a_daemon():
    not_tested("fickle", "it does not start")
"""
TWO = """
import pytest
from tests.requirements import REQUIREMENTS, Requirement

REQUIREMENTS["absent"] = Requirement("Absent", lambda: False)
REQUIREMENTS["fickle"] = Requirement("Fickle")

@pytest.mark.parametrize("key", [pytest.param(key, marks=pytest.mark.needs(key)) for key in ("absent", "fickle")])
def test_needs_one(key):
    pass
"""
WRONG = """
def test_does_not_declare_it():
    not_tested("fickle", "it does not start")

@pytest.mark.needs("misspelt")
def test_needs_an_unknown_key():
    pass
"""


def run(folder: Path, source: str, *options: str, **changes: str) -> str:
    file = folder / "test_synthetic.py"
    file.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "tests.conftest", file, *options]
    variables = environment(CI=None, **changes)
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, encoding="utf-8").stdout


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_one_line_lists_the_missing_requirements(tmp_path: Path, processes: str) -> None:
    printed = run(tmp_path, SYNTHETIC, "--numprocesses", processes)
    assert re.search(r"\b1 passed, 3 skipped\b", printed), printed
    assert "\nNot tested: 2 tests need Absent (apt install absent), 1 Fickle\n" in printed
    assert printed.count("Absent") == 1


@pytest.mark.slow
def test_the_marker_selects_tests_with_requirements(tmp_path: Path) -> None:
    printed = run(tmp_path, SYNTHETIC.replace("lambda: False", "lambda: True"), "-m", "needs", "-k", "not fixture")
    assert re.search(r"\b1 failed, 1 skipped, 2 deselected\b", printed), printed
    assert "Not tested: 1 test needs Fickle\n" in printed


@pytest.mark.slow
def test_tests_with_requirements_run_again_only_if_they_did_not_pass(tmp_path: Path) -> None:
    passed = str(tmp_path / "passed")
    assert re.search(r"\b1 passed, 1 skipped\b", run(tmp_path, TWO, TESTS_PASSED=passed))
    printed = run(tmp_path, TWO.replace("lambda: False", "lambda: True"), "-m", "again", TESTS_PASSED=passed)
    assert re.search(r"\b1 passed, 1 deselected\b", printed), printed


@pytest.mark.slow
def test_a_skip_without_the_marker_and_an_unknown_requirement_are_errors(tmp_path: Path) -> None:
    printed = run(tmp_path, SYNTHETIC + WRONG, "-k", "declare or unknown")
    assert re.search(r"\b1 failed, 4 deselected, 1 error\b", printed), printed
    assert re.search(r"FAILED .*test_does_not_declare_it", printed)
    assert re.search(r"ERROR .*test_needs_an_unknown_key", printed)
    assert "Not tested" not in printed


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ([], ""),
        (["Skipped: needs A (a): why"], "Not tested: 1 test needs A (a)"),
        (["Skipped: needs B", "Skipped: needs A", "Skipped: needs A: why"], "Not tested: 2 tests need A, 1 B"),
        (["Skipped: anything", "Skipped: else"], "Not tested: 2 tests for other reasons (pytest -rs)"),
    ],
)
def test_skips_are_counted_by_requirement(reasons: list[str], line: str) -> None:
    assert summarize(reasons) == line


@pytest.mark.parametrize(
    ("variables", "outcome"), [({}, pytest.skip.Exception), ({"CI": "true"}, pytest.fail.Exception)]
)
def test_in_continuous_integration_a_missing_browser_is_a_failure(
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


def test_no_requirement_contains_the_separator() -> None:
    assert not [key for key, requirement in REQUIREMENTS.items() if DETAIL in str(requirement)]


def test_every_test_declares_its_requirements_by_the_marker() -> None:
    others = re.compile(r"pytest\.(skip|importorskip)\(|mark\.skip|raise .*SkipTest")
    exempt = {Path(requirements.__file__), Path(__file__)}
    files = set((ROOT / "tests").rglob("*.py")) - exempt
    assert [str(file) for file in files if others.search(file.read_text(encoding="utf-8"))] == []
