"""Tests of the commands that install optional packages; their extras must exist in pyproject.toml."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import get_args

import pytest
from packaging.requirements import Requirement

from accelbench.profiling.machine.packages import TENSORFLOW_BELOW, Extra, PackageSet, install_framework, not_installed
from tests.conftest import ROOT

NAMED = re.compile(r"(?:accelbench|'\.)\[([a-z0-9,-]+)\]")
"""Extras of a requirement: `accelbench[torch]`, or `'.[cpu,dev]'` in the source folder."""
FOLDERS = ("accelbench", "containers", "docs", "kernels", "profiling", "requirements", "tests", "workloads")


@pytest.fixture(scope="module")
def extras() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def test_extras_in_messages_are_the_packages_extras(extras: set[str]) -> None:
    assert set(get_args(Extra)) == extras
    assert set(get_args(PackageSet)) <= extras


def test_every_extra_named_in_a_file_exists(extras: set[str]) -> None:
    files = [*ROOT.glob("*"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]
    found = {
        (str(file.relative_to(ROOT)), extra)
        for file in files
        if file.suffix in {"", ".def", ".html", ".ipynb", ".md", ".py", ".sh", ".toml"} and file.is_file()
        for names in NAMED.findall(file.read_text(encoding="utf-8", errors="replace"))
        for extra in names.split(",")
    }
    assert "accelbench/errors.py" in {file for file, _ in found}
    assert {(file, extra) for file, extra in found if extra not in extras} == set()


@pytest.mark.parametrize(
    ("backend", "packages", "requirement"),
    [
        ("tensorflow", "cpu", "accelbench[cpu]"),
        ("tensorflow", "gpu13", "accelbench[gpu13]"),
        ("tensorflow", "tpu", "accelbench[tpu-tensorflow]"),
        ("torch", "gpu", "accelbench[torch]"),
        ("jax", "cpu", "accelbench[jax]"),
        ("jax", "gpu", "jax[cuda12]"),
        ("jax", "tpu", "jax[tpu]"),
    ],
)
def test_a_framework_is_installed_for_the_device(
    backend: str, packages: PackageSet, requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    remedy = install_framework(backend, packages)
    assert remedy == f"pip install '{requirement}'"
    assert not_installed(backend, remedy).endswith(f": {remedy}")


@pytest.mark.parametrize("version", [TENSORFLOW_BELOW, (3, 15)])
def test_without_a_tensorflow_package_there_is_no_install_command(
    version: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, 0))
    text = install_framework("tensorflow", "cpu")
    assert "{}.{}".format(*version) in text
    assert "pip install" not in text
    assert install_framework("jax", "cpu") == "pip install 'accelbench[jax]'"


@pytest.mark.parametrize("device", get_args(PackageSet))
def test_each_device_has_tensorflow_or_jax_and_a_tpu_only_jax(device: PackageSet) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [Requirement(line) for line in project["optional-dependencies"][device]]
    for python, framework in (
        ((3, 11), "tensorflow"),
        ((3, 13), "tensorflow"),
        (TENSORFLOW_BELOW, "jax"),
        ((3, 15), "jax"),
    ):
        version = ".".join(map(str, python))
        selected = [
            one.name for one in requirements if one.marker is None or one.marker.evaluate({"python_version": version})
        ]
        expected = "jax" if device == "tpu" else framework
        assert [name.split("-")[0] for name in selected if name.startswith(("tensorflow", "jax"))] == [expected]


def test_an_unknown_backend_has_no_install_command() -> None:
    assert install_framework("absent", "cpu") == ""
    assert not_installed("absent", "") == "absent is not installed"
