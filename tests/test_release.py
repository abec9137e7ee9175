"""Tests of release metadata: consistent version, type information, and current generated pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from accelbench import __version__
from accelbench.profiling.records.record import Record
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
def test_every_file_has_the_same_version(file: str, pattern: str) -> None:
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    assert found[1] == __version__


def test_each_package_is_marked_as_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["*"]
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_the_folders_are_importable_as_subpackages_only(package: str) -> None:
    for module, status in ((f"accelbench.{package}", 0), (package, 1)):
        process = subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, capture_output=True, text=True)
        assert process.returncode == status, process.stderr
    assert f"accelbench.{package}" in process.stderr


def test_the_records_page_is_current() -> None:
    process = subprocess.run(
        [sys.executable, "docs/records.py"], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    written = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    assert process.stdout == written, "a model has changed: run make records-page"
    assert all(f"| `{name}` |" in written for name in Record.model_fields)


def test_a_checkout_without_symbolic_links_is_an_error_of_one_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "accelbench", tmp_path / "accelbench", ignore=lambda folder, names: PACKAGES)
    for package in PACKAGES[1:]:
        (tmp_path / "accelbench" / package).write_text(f"../{package}")
    process = subprocess.run(
        [sys.executable, "-m", "accelbench", "list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=None),
    )
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert "symbolic link" in process.stderr
