"""Tests of sampling real processes: stacks, overhead budget, and failures with their reasons."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib.metadata import PackageNotFoundError
from itertools import islice, pairwise
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.host import sampling
from accelbench.profiling.host.pyspy import explain, find_pyspy, library_bytes, read_windows
from accelbench.profiling.host.sampling import HostSampler, affordable_rate, schedule
from accelbench.profiling.host.stacks import threads_of
from tests.fixtures.machines import build
from tests.fixtures.processes import command_line
from tests.fixtures.programs import BUSY, BUSY_WHILE_MAIN_SLEEPS, MATRIX_PRODUCT, running

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]
UNBOUNDED = 1.0
"""Budget with which native frames are read at once."""


def wait_for_windows(sampler: HostSampler, number: int) -> None:
    """Wait until the given number of windows has ended, or sampling has failed."""
    deadline = time.monotonic() + 60
    while len(sampler.result().windows) < number and not sampler._missing and time.monotonic() < deadline:
        time.sleep(0.1)


def py_spy_wheel(folder: Path) -> Path:
    """Return a wheel of a py-spy that prints its name, with the layout of the real one."""
    wheel = folder / "py_spy-0.0.1-py3-none-any.whl"
    info = "py_spy-0.0.1.dist-info"
    files = {
        "py_spy-0.0.1.data/scripts/py-spy": "#!/bin/sh\necho py-spy of the target\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: py-spy\nVersion: 0.0.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16  # executable
            archive.writestr(entry, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return wheel


def test_py_spy_is_found_next_to_packages_installed_with_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, target = py_spy_wheel(tmp_path), tmp_path / "target"
    options = ["--no-index", "--no-deps", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, str(wheel)], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.syspath_prepend(target)
    found = find_pyspy()
    assert found == target / "bin" / "py-spy"
    assert subprocess.run([found], capture_output=True, text=True, check=True).stdout == "py-spy of the target\n"


def test_each_kind_of_window_records_its_threads_and_frames(tmp_path: Path) -> None:
    with running(BUSY_WHILE_MAIN_SLEEPS) as process, HostSampler(process.pid, tmp_path, budget=UNBOUNDED) as sampler:
        wait_for_windows(sampler, 4)
    stacks, result = sampler.stacks(), sampler.result()
    assert [window.kind for window in result.windows[:4]] == ["all", "running", "gil", "native"]
    assert set(threads_of(stacks["all"]).values()) == {"MainThread", "spinner"}
    assert set(threads_of(stacks["gil"]).values()) == {"spinner"}  # the main thread sleeps without the GIL
    assert any(not frame.is_python for stack in stacks["native"] for frame in stack.frames)
    assert not any(not frame.is_python for stack in stacks["all"] for frame in stack.frames)
    assert all(window.looks > 0 for window in result.windows[:4])
    assert result.missing == []


def test_native_frames_without_a_window_are_missing(tmp_path: Path) -> None:
    with running(BUSY) as process, HostSampler(process.pid, tmp_path, budget=UNBOUNDED) as sampler:
        wait_for_windows(sampler, 1)
    (reason,) = sampler.result().missing
    assert reason.startswith("native frames: ")
    assert "costs" not in reason


def test_windows_have_pauses_between_them(tmp_path: Path) -> None:
    with running(BUSY) as process, HostSampler(process.pid, tmp_path) as sampler:
        wait_for_windows(sampler, 2)
    windows = sampler.result().windows
    assert all(before.end_s < after.begin_s for before, after in pairwise(windows))
    assert all(window.begin_s < window.end_s for window in windows)


def test_native_frames_that_cost_too_much_are_missing_with_the_reason(tmp_path: Path) -> None:
    with running(BUSY) as process, HostSampler(process.pid, tmp_path, budget=1e-9) as sampler:
        wait_for_windows(sampler, 1)
    (reason,) = sampler.result().missing
    assert reason.startswith("native frames: ")
    assert re.search(r"\d s, more than 0%", reason)


def test_a_worker_that_dies_keeps_its_samples(tmp_path: Path) -> None:
    with running(BUSY) as process, HostSampler(process.pid, tmp_path) as sampler:
        wait_for_windows(sampler, 1)
        process.kill()
        process.wait()
        sampler._thread.join(timeout=60)
        assert not sampler._thread.is_alive()  # the sampler has stopped
    assert sum(sampler.stacks()["all"].values()) > 0
    assert not any("py-spy" in reason for reason in sampler.result().missing)


def test_an_ended_worker_is_a_reason(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with HostSampler(process.pid, tmp_path) as sampler:
        pass
    assert len(sampler.result().missing) == 1


def pyspy_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if any("py-spy" in word for word in command_line(child)[:1])]


def test_a_killed_pyspy_loses_its_window_only(tmp_path: Path) -> None:
    with running(BUSY) as process, HostSampler(process.pid, tmp_path, budget=UNBOUNDED) as sampler:
        wait_for_windows(sampler, 1)
        killed = None
        while killed is None:
            killed = next(iter(pyspy_processes()), None)
        killed.kill()
        wait_for_windows(sampler, 99)  # until the failure is listed
        assert process.poll() is None
    assert "SIGKILL" in sampler.result().missing[0]
    assert len(sampler.result().windows) >= 1
    assert sum(sampler.stacks()["all"].values()) > 0


def test_a_missing_pyspy_is_a_reason_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_package(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("accelbench.profiling.host.pyspy.distribution", no_package)
    with HostSampler(os.getpid(), tmp_path) as sampler:
        sampler._thread.join(timeout=60)
    (reason,) = sampler.result().missing
    assert reason.endswith("pip install py-spy")


@pytest.mark.needs("root")
def test_a_missing_permission_to_trace_is_a_reason_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name, running(BUSY) as process:
        folder = Path(name)
        folder.chmod(0o777)
        copy = shutil.copy(find_pyspy(), folder / "py-spy-copy")
        unprivileged = folder / "py-spy"
        drop = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all"
        unprivileged.write_text(f'#!/bin/sh\nexec {drop} {copy} "$@"\n')
        unprivileged.chmod(0o755)
        monkeypatch.setattr(sampling, "find_pyspy", lambda: unprivileged)
        with HostSampler(process.pid, folder) as sampler:
            sampler._thread.join(timeout=60)
        assert process.poll() is None
    (reason,) = sampler.result().missing
    assert "--cap-add=SYS_PTRACE" in reason
    assert "kernel.yama.ptrace_scope" in reason
    assert sampler.result().windows == []


def test_a_process_without_python_is_a_reason(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with HostSampler(process.pid, tmp_path) as sampler:
            sampler._thread.join(timeout=60)
        process.kill()
    (reason,) = sampler.result().missing
    assert reason.endswith("Failed to find python version from target process")  # py-spy's own message


def test_an_unwritable_folder_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with running(BUSY) as process, HostSampler(process.pid, tmp_path / "file" / "host") as sampler:
        sampler._thread.join(timeout=60)
    assert len(sampler.result().missing) == 1
    assert sampler.result().windows == []


def test_written_windows_remain_when_the_sampler_dies(tmp_path: Path) -> None:
    """The sampler runs in a separate process, which is killed in its second window."""
    script = f"""
import sys, time
from pathlib import Path
from accelbench.profiling.host.sampling import HostSampler
with HostSampler(int(sys.argv[1]), Path({str(tmp_path)!r})) as sampler:
    while not sampler.result().windows:
        time.sleep(0.1)
    print("sampled", flush=True)
    time.sleep(60)
"""
    with running(BUSY) as process:
        sampler = subprocess.Popen([sys.executable, "-c", script, str(process.pid)], stdout=subprocess.PIPE)
        assert sampler.stdout is not None
        assert sampler.stdout.readline() == b"sampled\n"
        sampler.send_signal(signal.SIGKILL)
        sampler.communicate()
    assert sum(read_windows(tmp_path)["all"].values()) > 0


def test_pyspy_is_in_another_process_group_than_the_terminal(tmp_path: Path) -> None:
    with running(BUSY) as process, HostSampler(process.pid, tmp_path, budget=UNBOUNDED) as sampler:
        pids = []
        while not pids:
            pids = [process.pid for process in pyspy_processes()]
        assert os.getpgid(pids[0]) != os.getpgid(0)
        wait_for_windows(sampler, 1)
    assert len(sampler.result().windows) >= 1


@pytest.mark.parametrize(
    "complaint",
    [
        "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
        "Error: Failed to suspend process\n\nCaused by:\n    Operation not permitted (os error 1)",
        "Error: x\n\nCaused by:\n    0: Permission denied (os error 13)",
    ],
)
def test_a_refusal_names_the_current_setting_of_yama(complaint: str, tmp_path: Path) -> None:
    root = build(tmp_path, {"proc/sys/kernel/yama/ptrace_scope": "1"})
    assert "kernel.yama.ptrace_scope is 1" in explain(complaint, root)


def test_another_failure_has_pyspys_message() -> None:
    found = explain("\nError: No such file or directory (os error 2)\n\nStack backtrace:\n 0: x")
    assert found.endswith(": No such file or directory (os error 2)")
    assert explain("").endswith("no reason given")


@given(st.floats(1e-3, 1.0), st.floats(0, 100.0), st.integers(0, 1000), st.integers(1, 100))
def test_a_rate_costs_no_more_than_the_budget(budget: float, cost_s: float, samples: int, fastest: int) -> None:
    rate = affordable_rate(budget, cost_s, samples, fastest)
    assert 1 <= rate <= fastest
    assert rate == 1 or rate * cost_s <= budget * samples * (1 + 1e-9)


def test_the_first_windows_are_short_and_have_every_kind() -> None:
    first = list(islice(schedule(), 8))
    assert [kind for kind, _ in first[:4]] == ["all", "running", "gil", "native"]
    assert {seconds for _, seconds in first[:4]} == {2}
    assert {seconds for _, seconds in first[4:]} == {4}


def test_library_bytes_of_a_process() -> None:
    with running(MATRIX_PRODUCT) as process:
        assert library_bytes(process.pid) > 10_000_000  # OpenBLAS alone
    assert library_bytes(process.pid) == 0
