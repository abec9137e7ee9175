"""Tests of the checks for profiling: status, effect and advice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.doctor import checks
from accelbench.doctor.places import RUN_BYTES, check_runs
from accelbench.doctor.profiling import (
    check_cupti,
    check_nvml,
    check_ptrace,
    try_plugin,
    try_py_spy,
)
from accelbench.profiling.host import pyspy
from accelbench.profiling.machine.environment.container import CONTAINER_VARIABLES
from tests.fixtures.machines import CGROUP_V2, XEON, build
from tests.fixtures.stub_driver import run_with_driver

SCOPE = "proc/sys/kernel/yama/ptrace_scope"
GPU_CHECKS = """
from pathlib import Path
from accelbench.doctor.profiling import check_cupti, check_nvml
root = Path({root!r})
for check in (*check_nvml(root), *check_cupti(root)):
    print(check.name, check.status, check.found, check.advice, check.cost, sep="|")
"""
CUPTI_SOURCE = "int cuptiGetVersion(unsigned *version) { *version = 26; return 0; }"


@pytest.fixture(autouse=True)
def no_markers(monkeypatch: pytest.MonkeyPatch, no_driver: None) -> None:
    for name in (*CONTAINER_VARIABLES, "container"):
        monkeypatch.delenv(name, raising=False)


def gpu_checks(root: Path, **settings: str) -> dict[str, list[str]]:
    lines = run_with_driver(GPU_CHECKS.format(root=str(root)), **settings).splitlines()
    return {name: rest for name, *rest in (line.split("|") for line in lines)}


def test_the_check_is_ok_exactly_if_py_spy_can_attach_to_a_child_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()  # the interpreter is running
        tried = subprocess.run([pyspy.find_pyspy(), "dump", "--pid", str(child.pid)], capture_output=True, check=False)
        child.kill()
    check = try_py_spy()
    assert (check.status, "attached" in check.found) == (("ok", True) if tried.returncode == 0 else ("warn", False))
    assert bool(check.advice and check.cost) == (tried.returncode != 0)


def test_a_failure_to_attach_has_the_message_of_py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = tmp_path / "py-spy"
    refused.write_text(
        "#!/bin/sh\necho 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1"
    )
    refused.chmod(0o755)
    monkeypatch.setattr(pyspy, "find_pyspy", lambda: refused)
    check = try_py_spy(build(tmp_path, {SCOPE: "2"}))
    assert check.status == "warn"
    assert check.found.endswith("Error: Permission Denied: Try running again with elevated permissions")
    assert check.advice == "sudo sysctl kernel.yama.ptrace_scope=0"
    assert "flame graph" in check.cost


def test_a_missing_py_spy_has_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise pyspy.SamplingError("py-spy is not installed")

    monkeypatch.setattr(pyspy, "find_pyspy", none)
    check = try_py_spy()
    assert (check.status, check.advice) == ("missing", "pip install py-spy")


@pytest.mark.parametrize(
    ("scope", "advice"),
    [
        ("2", "sudo sysctl kernel.yama.ptrace_scope=0"),
        ("3", "reboot"),
    ],
)
def test_a_strict_ptrace_scope_prevents_flame_graphs_and_stacks(tmp_path: Path, scope: str, advice: str) -> None:
    check = check_ptrace(build(tmp_path, {SCOPE: scope}))
    assert check.status == "warn"
    assert "flame graph" in check.cost
    assert advice in check.advice


@pytest.mark.parametrize("scope", ["0", "1"])
def test_a_worker_may_be_traced_with_the_default_scope(tmp_path: Path, scope: str) -> None:
    check = check_ptrace(build(tmp_path, {SCOPE: scope}))
    assert (check.status, check.advice, check.cost) == ("ok", "", "")


@pytest.mark.parametrize(
    ("marker", "advice"),
    [
        (".dockerenv", "start the container with --cap-add SYS_PTRACE"),
        (".singularity.d/runscript", "on the host (apptainer"),
        ("var/run/secrets/kubernetes.io/namespace", "add SYS_PTRACE"),
    ],
)
def test_the_advice_depends_on_the_container_engine(tmp_path: Path, marker: str, advice: str) -> None:
    assert check_ptrace(build(tmp_path, {SCOPE: "2", marker: ""})).advice.startswith(advice)


@pytest.mark.slow
def test_the_plug_in_can_be_imported() -> None:
    check = try_plugin()
    if check.status == "missing":
        assert "ModuleNotFoundError" in check.found
        assert "pip install" in check.advice
    else:
        assert check.status == "ok", check.found
        assert "xprof " in check.found


@pytest.mark.parametrize(
    ("error", "status", "advice"),
    [
        (
            "ImportError('cannot import name runtime_version from google.protobuf')",
            "warn",
            "pip install --upgrade tensorboard tensorboard-plugin-profile xprof",
        ),
        ("ModuleNotFoundError('No module named xprof')", "missing", "pip install 'accelbench[trace]'"),
    ],
)
def test_a_plug_in_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, status: str, advice: str
) -> None:
    for name in ("xprof", "tensorboard"):
        (tmp_path / f"{name}.py").write_text(f"raise {error}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = try_plugin()
    assert check.status == status
    assert error.split("'")[1] in check.found
    assert check.advice == advice
    assert "TensorBoard" in check.cost


def test_a_machine_without_a_gpu_has_no_checks_of_cupti_and_nvml(tmp_path: Path) -> None:
    assert not [*check_cupti(tmp_path), *check_nvml(tmp_path)]


@pytest.mark.needs("gcc")
def test_a_missing_cupti_has_the_install_command(tmp_path: Path) -> None:
    found = gpu_checks(tmp_path)
    assert found["gpu 0 NVML"][0] == "ok"
    if found["CUPTI"][0] != "ok":  # it may be installed here, by a wheel or a toolkit
        assert found["CUPTI"][2] == "pip install 'accelbench[gpu]'"
        assert found["CUPTI"][3]


@pytest.mark.needs("gcc")
def test_cupti_of_the_toolkit_is_found_with_its_version(tmp_path: Path) -> None:
    folder = tmp_path / "usr/local/cuda/extras/CUPTI/lib64"
    folder.mkdir(parents=True)
    (folder / "libcupti.so.99").write_text("no library")
    library = folder / "libcupti.so.12"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=CUPTI_SOURCE, text=True, check=True)
    status, found, *_ = gpu_checks(tmp_path)["CUPTI"]
    assert status == "ok"
    assert found == f"{library}, API version 26" or "site-packages" in found


@pytest.mark.needs("gcc")
def test_a_gpu_unknown_to_nvml_has_the_container_option(tmp_path: Path) -> None:
    """The NVML stub knows only the first GPU."""
    found = gpu_checks(build(tmp_path, {".dockerenv": ""}), STUB_COUNT="2")
    assert found["gpu 0 NVML"][0] == "ok"
    status, _, advice, cost = found["gpu 1 NVML"]
    assert (status, advice) == ("warn", "start the container with -e NVIDIA_DRIVER_CAPABILITIES=compute,utility")
    assert "energy" in cost


def test_space_for_runs_is_checked_on_the_disk_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = tmp_path / "deep" / "runs"
    monkeypatch.setattr("accelbench.doctor.places.RUN_BYTES", 1)
    assert check_runs(wanted).status == "ok"
    monkeypatch.setattr("accelbench.doctor.places.RUN_BYTES", RUN_BYTES << 40)
    check = check_runs(wanted)
    assert check.status == "warn"
    assert "--out DIRECTORY" in check.advice
    assert "GiB free for" in check.found
    assert "--trace" in check.cost
    assert not wanted.parent.exists()


def test_a_runs_folder_that_cannot_be_created_is_found(tmp_path: Path) -> None:
    """A file at the path stops even root."""
    (tmp_path / "file").touch()
    assert check_runs(tmp_path / "file" / "runs").status == "warn"


def test_every_problem_of_profiling_has_an_effect_and_advice(tmp_path: Path) -> None:
    machine = build(tmp_path, XEON, CGROUP_V2, {".dockerenv": "", SCOPE: "2"})
    found = {check.name: check for check in checks(machine)}
    for name in ("CPU quota", "memory limit", "ptrace scope", "GPU performance counters"):
        assert found[name].status == "warn"
        assert found[name].cost
        assert found[name].advice
    assert all(not check.cost for check in found.values() if check.status == "ok")
