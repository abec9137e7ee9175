"""Linters of the Dockerfile and the shell scripts."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.containers.conftest import run

pytestmark = pytest.mark.container

PROGRAMS = Path(sysconfig.get_path("scripts"))


def test_the_dockerfile_passes_hadolint() -> None:
    run(PROGRAMS / "hadolint", "--failure-threshold", "info", "containers/Dockerfile", cwd=ROOT)


def test_the_scripts_pass_shellcheck() -> None:
    scripts = [*(ROOT / "containers").rglob("*.sh"), *(ROOT / "containers").rglob("*.sbatch"), ROOT / ".ci" / "run"]
    run(PROGRAMS / "shellcheck", "--external-sources", *scripts, cwd=ROOT)
