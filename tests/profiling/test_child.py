"""Child processes: they end with their parent, and import nothing from the current folder."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from accelbench.profiling.child import SECRET, child_command, child_environment, module_command
from tests.conftest import ROOT, environment

SLOW_IMPORT = """
import pathlib, time
pathlib.Path("importing").touch()
time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
from accelbench.profiling.child import child_command
print(subprocess.Popen(child_command("slow_import")).pid, flush=True)
time.sleep(600)
"""


def test_a_child_whose_parent_has_died_ends_at_once() -> None:
    command = child_command("no_such_module")
    command[3] = str(2**22 + 1)  # larger than every PID
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 1


def test_a_child_runs_its_module_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text("import sys\nprint(sys.argv[1:], __name__)")
    process = subprocess.run(
        child_command("echo", "5", "x y"), env=environment(PYTHONPATH=str(tmp_path)), capture_output=True, text=True
    )
    assert process.stdout == "['5', 'x y'] __main__\n", process.stderr


def test_a_child_dies_with_its_parent_during_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text(SLOW_IMPORT)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        while not (tmp_path / "importing").exists():
            time.sleep(0.02)
        parent.kill()
    assert not psutil.wait_procs([child], timeout=60)[1]


@pytest.mark.parametrize("start", [child_command, module_command])
def test_no_module_of_the_current_folder_is_imported(tmp_path: Path, start: Callable[..., list[str]]) -> None:
    for name in ("echo", "numpy", "json", "runpy", "ctypes", "accelbench"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()")
    for module in ("echo", "accelbench.kernels.lib.cpu.caches"):
        subprocess.run(start(module), cwd=tmp_path, env=environment(PYTHONPATH=None), capture_output=True)
    assert not (tmp_path / "imported").exists()


def test_a_module_of_the_package_is_found_from_any_folder(tmp_path: Path) -> None:
    command = [*module_command("accelbench", "--version")]
    process = subprocess.run(command, cwd=tmp_path, env=environment(PYTHONPATH=None), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_the_standard_library_comes_before_the_checkout_in_the_search_path() -> None:
    code = "import sys; from accelbench.profiling.child import ROOT, find_own_package; sys.path.remove(ROOT); "
    code += "find_own_package(); print([e.endswith('-packages') for e in sys.path].index(True) - sys.path.index(ROOT))"
    command = [sys.executable, "-P", "-c", code]
    process = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert int(process.stdout) == 1, process.stderr


def test_a_child_does_not_get_the_secret_of_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "known to all ranks")
    monkeypatch.setenv("ELSE", "kept")
    show = [sys.executable, "-c", "import os; print({name: os.environ.get(name) for name in ('ELSE', 'ONE')})"]
    process = subprocess.run(show, env=child_environment(ONE="1"), capture_output=True, text=True)
    assert process.stdout == "{'ELSE': 'kept', 'ONE': '1'}\n"
    assert SECRET not in child_environment()
