"""A Python without accelbench's packages, such as the system's: one line with the command to use instead."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a checkout with a space in its path, and without an environment."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("accelbench", "kernels", "profiling", "workloads", "Makefile"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def start(checkout: Path, cwd: Path) -> str:
    """Start accelbench by a Python without packages, and return its only line."""
    code = f"import sys; sys.argv[0] = 'accelbench'; sys.path.insert(0, {str(checkout)!r}); import accelbench.__main__"
    process = subprocess.run([sys.executable, "-S", "-c", code], cwd=cwd, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (2, "")
    (line,) = process.stderr.splitlines()
    return line


def test_the_environment_of_the_checkout_is_named(checkout: Path, tmp_path: Path) -> None:
    program = checkout / ".venv" / "bin" / "accelbench"
    program.parent.mkdir(parents=True)
    program.touch()
    assert " .venv/bin/accelbench" in start(checkout, checkout)
    assert f"'{checkout}/.venv'/bin/accelbench" in start(checkout, tmp_path)


def test_without_an_environment_the_commands_that_install_are_named(checkout: Path) -> None:
    line = start(checkout, checkout)
    assert "make install" in line
    assert re.findall(r"pip install (\S+)", line) == ["'.[cpu]'\""]
    (checkout / "Makefile").unlink()
    assert start(checkout, checkout).endswith("pip install 'accelbench[cpu]'")
