"""A process of a run is bound to its parent from its first moment."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from accelbench.execution.child import child_command
from tests.conftest import ROOT, environment

SLOW_IMPORT = """
import pathlib, time
pathlib.Path("importing").touch()
time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
from accelbench.execution.child import child_command
print(subprocess.Popen(child_command("slow_import")).pid, flush=True)
time.sleep(600)
"""


def test_a_child_whose_parent_is_another_already_ends_at_once() -> None:
    command = child_command("no_such_module")
    command[3] = str(2**22 + 1)  # no process has such a number
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 1


def test_a_child_is_its_module_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text("import sys\nprint(sys.argv[1:], __name__)")
    process = subprocess.run(
        child_command("echo", "5", "x y"), cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert process.stdout == "['5', 'x y'] __main__\n", process.stderr


def test_a_child_dies_with_its_parent_while_it_still_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text(SLOW_IMPORT)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        while not (tmp_path / "importing").exists():
            time.sleep(0.02)
        parent.kill()
    assert not psutil.wait_procs([child], timeout=20)[1]
