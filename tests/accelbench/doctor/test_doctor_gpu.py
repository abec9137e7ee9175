"""Tests of the GPU trials, with test programs as libraries and a stub driver as GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accelbench.doctor.check import Check
from accelbench.doctor.gpu import Trial, check_toolkit, gpu_trials, merge_trials, run_trial, run_trials, try_gpu
from accelbench.profiling.devices import gpu_backend
from tests.fixtures.processes import has_ended, wait_for
from tests.fixtures.stub_driver import run_with_driver


def trial(script: str, *modules: str, name: str = "Numba") -> Trial:
    return Trial(name, (sys.executable, "-c", script), modules, "pip install it", "nothing is measured", needed=True)


def test_a_successful_trial_is_ok_with_its_last_line() -> None:
    check = run_trial(trial("import warnings; warnings.warn('noise'); print('a banner'); print('it 1.0')"))
    assert check == Check("Numba on the GPU", "ok", "compiled and ran: it 1.0")


def test_a_failed_trial_has_its_error_in_one_line() -> None:
    check = run_trial(trial("raise RuntimeError('cudaErrorNoKernelImageForDevice')"))
    assert (check.status, check.found) == ("warn", "RuntimeError: cudaErrorNoKernelImageForDevice")
    assert check.advice.startswith("pip install it; ")
    assert check.cost == "nothing is measured"


def test_a_crashed_trial_has_its_signal() -> None:
    check = run_trial(trial("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert check.status == "warn"
    assert "SIGSEGV" in check.found


@pytest.mark.slow
def test_a_hung_trial_is_killed_with_its_children(tmp_path: Path) -> None:
    started = tmp_path / "started"
    hang = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(started)!r}).write_text(str(child.pid))
time.sleep(600)
"""
    check = run_trial(trial(hang), limit_s=5)
    assert check.status == "warn"
    assert "5 s" in check.found
    child = int(started.read_text())
    wait_for(lambda: has_ended(child))


def test_a_library_that_is_not_installed_has_no_trial(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    check = run_trial(trial(f"open({str(tried)!r}, 'w')", "no_such_module", "json"))
    assert (check.status, check.advice) == ("missing", "pip install it")
    assert "no_such_module" in check.found
    assert not tried.exists()


def test_trials_are_independent_and_in_order() -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    scripts = ["print(1)", crash, "raise OSError('no')", "print(4)"]
    found = run_trials([trial(script, name=str(number)) for number, script in enumerate(scripts)])
    assert [check.name.split()[0] for check in found] == ["0", "1", "2", "3"]
    assert [check.status for check in found] == ["ok", "warn", "warn", "ok"]


def test_a_trial_that_fails_in_parallel_is_repeated_serially(tmp_path: Path) -> None:
    """A GPU in exclusive mode serves one process at a time."""
    once = f"""
import pathlib
before = pathlib.Path({str(tmp_path / "before")!r})
if not before.exists():
    before.touch()
    raise RuntimeError("CUDA_ERROR_DEVICE_UNAVAILABLE")
print("serial")
"""
    (check,) = run_trials([trial(once)])
    assert check.status == "ok"
    assert check.found.endswith("serial")


FOUND = [Check("device cpu", "ok", "usable"), Check("device gpu", "ok", "usable")]


def judged(**statuses: str) -> dict[str, Check]:
    trials = [
        Check(f"{name} on the GPU", "ok" if status == "ok" else "warn", status, "fix it")
        for name, status in statuses.items()
    ]
    return {check.name: check for check in merge_trials(FOUND, trials)}


def test_a_gpu_is_usable_if_all_required_trials_passed() -> None:
    found = judged(Numba="ok", CuPy="ok", NVBench="ok", JAX="JAX finds no GPU")
    assert found["device gpu"] == FOUND[1]
    assert found["JAX on the GPU"].status == "warn"


@pytest.mark.parametrize("broken", ["Numba", "CuPy", "NVBench"])
def test_a_gpu_is_unusable_if_a_required_trial_failed(broken: str) -> None:
    found = judged(**{"Numba": "ok", "CuPy": "ok", "NVBench": "ok", broken: "it broke"})
    assert (found["device gpu"].status, found["device gpu"].advice) == ("missing", "fix it")
    assert f"{broken} on the GPU: it broke" in found["device gpu"].found
    assert found["device cpu"] == FOUND[0]


def test_required_trials() -> None:
    assert {trial.name for trial in gpu_trials(gpu_backend()) if trial.needed} == {"Numba", "CuPy", "NVBench"}


def test_without_a_gpu_there_are_no_trials(tmp_path: Path, no_driver: None) -> None:
    assert [*try_gpu()] == []
    assert check_toolkit(tmp_path) is None


LIBNVVM = """
import sys
import cuda.pathfinder

find = cuda.pathfinder.load_nvidia_dynamic_lib

def load(name):
    if name != "nvvm":
        return find(name)
    raise cuda.pathfinder.DynamicLibNotFoundError(f"Failure finding lib{name}.so:\\n no such file")

cuda.pathfinder.load_nvidia_dynamic_lib = load
from accelbench.doctor import gpu_trials
sys.argv = ["gpu_trials", "numba"]
sys.stderr = sys.stdout
gpu_trials.main()
"""


@pytest.mark.needs("gcc")
def test_the_trial_of_numba_names_a_missing_libnvvm() -> None:
    *_, last = run_with_driver(LIBNVVM).splitlines()
    assert last.startswith("RuntimeError: libNVVM")
    assert last.endswith("no such file")


REAL = """
from accelbench.doctor.gpu import gpu_trials, run_trial
from accelbench.profiling.devices import gpu_backend
for trial in gpu_trials(gpu_backend()):
    if trial.name in ("Numba", "CuPy", "NVBench", "PyTorch"):
        check = run_trial(trial)
        print(trial.name, check.status, check.found, sep="|")
"""


@pytest.mark.needs("gcc")
@pytest.mark.slow
def test_the_real_trials_fail_with_a_stub_driver() -> None:
    found = dict(line.split("|", 1) for line in run_with_driver(REAL).splitlines())
    assert set(found) == {"Numba", "CuPy", "NVBench", "PyTorch"}
    assert not any(line.startswith("ok") for line in found.values())


TOOLKIT = """
from pathlib import Path
from accelbench.doctor.gpu import check_toolkit
check = check_toolkit(Path({root!r}))
print(check.status, check.found, sep="|")
"""


@pytest.mark.needs("gcc")
def test_the_toolkit_and_its_libnvvm_are_found(tmp_path: Path) -> None:
    shown = TOOLKIT.format(root=str(tmp_path))
    libnvvm = tmp_path / "usr/local/cuda-12.8/nvvm/lib64/libnvvm.so.4"
    libnvvm.parent.mkdir(parents=True)
    libnvvm.touch()
    folder = libnvvm.parents[2]
    assert run_with_driver(shown).strip() == f"ok|{folder}, CUDA 12.8, has libNVVM"
    empty = tmp_path / "named"
    empty.mkdir()
    found = run_with_driver(shown, CUDA_HOME=str(empty)).strip()
    assert found == f"warn|{empty}, CUDA of unknown version, has no libNVVM"
