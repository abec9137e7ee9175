"""What a release says of itself: one version everywhere, types for those who import it, and pages that are current."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from accelbench import __version__
from profiling.records.record import Record
from tests.conftest import ROOT, environment

PACKAGES = ("accelbench", "kernels", "profiling", "workloads")


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("pyproject.toml", r'^version = "(.*)"$'),
        ("CITATION.cff", r"^version: (.*)$"),
        ("CHANGELOG.md", r"^## (\d\S*)"),
        ("containers/Dockerfile", r'image\.version="(.*)"'),
    ],
)
def test_every_file_names_the_same_version(file: str, pattern: str) -> None:
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    assert found[1] == __version__


def test_each_package_says_that_it_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["*"]
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_no_python_is_taken_whose_standard_library_has_a_package_of_our_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["requires-python"].endswith("<3.15")
    assert not sys.stdlib_module_names & set(PACKAGES)


def test_the_page_of_the_records_is_what_their_models_say() -> None:
    process = subprocess.run(
        [sys.executable, "docs/records.py"], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    written = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    assert process.stdout == written, "a model has changed: run make records-page"
    assert all(f"| `{name}` |" in written for name in Record.model_fields)
