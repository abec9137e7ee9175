"""Tests of `accelbench doctor` on simulated machines: problems are found with their advice."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from accelbench.doctor import Check, check_cache, check_home, check_temporary, checks, describe, quiet, render_doctor
from accelbench.doctor.quiet import ObservedLoad, check_cpu_speeds, check_library_settings, load_check, observe_load
from accelbench.environment.session_limits import HOSTED
from accelbench.output.console import PlainConsole
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.container import CONTAINER_VARIABLES
from accelbench.profiling.machine.environment.system import SCHEDULER_VARIABLES
from accelbench.profiling.machine.packages import install_framework
from accelbench.profiling.records.environment import Environment
from tests.conftest import Run
from tests.fixtures.machines import CGROUP_V2, GRACE, XEON, build
from tests.fixtures.stub_driver import run_with_driver
from tests.requirements import ANY_BACKEND

NO_TRACING = {"proc/sys/kernel/yama/ptrace_scope": "2"}


@pytest.fixture(autouse=True)
def no_markers(monkeypatch: pytest.MonkeyPatch, no_driver: None) -> None:
    for name in (*CONTAINER_VARIABLES, *SCHEDULER_VARIABLES, "container"):
        monkeypatch.delenv(name, raising=False)


def checks_by_name(root: Path) -> dict[str, Check]:
    return {check.name: check for check in checks(root)}


def test_every_problem_is_found_with_its_advice(tmp_path: Path) -> None:
    found = checks_by_name(build(tmp_path, XEON, NO_TRACING))
    advice = {
        "CPU governor": "sudo cpupower frequency-set -g performance",
        "transparent huge pages": "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        "swap": "sudo swapoff -a && sudo swapon -a",
        "load": "find the processes: top -o %CPU",
        "ptrace scope": "sudo sysctl kernel.yama.ptrace_scope=0",
        "GPU performance counters": "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in "
        "/etc/modprobe.d, then reboot",
    }
    assert {name: found[name].advice for name in advice} == advice
    assert {found[name].status for name in advice} == {"warn"}
    assert found["swap"].found == "28 GiB in use"
    assert found["load"].found == "12.5 over the last minute"


def test_limited_cpu_affinity(tmp_path: Path) -> None:
    check = checks_by_name(build(tmp_path, {"sys/devices/system/cpu/online": "0-4095"}))["CPU affinity"]
    assert check.status == "warn"
    assert "of 4096 CPUs (" in check.found
    assert "taskset -c 0-4095" in check.advice


def test_unknown_facts_have_no_check(tmp_path: Path) -> None:
    found = checks_by_name(build(tmp_path, GRACE))
    assert found["CPU governor"].status == "ok"
    assert not {"load", "swap", "transparent huge pages", "GPU performance counters"} & found.keys()


def test_capabilities_override_restrictions(tmp_path: Path) -> None:
    """Root with all capabilities may trace and read counters regardless of the settings."""
    found = checks_by_name(build(tmp_path, XEON, NO_TRACING, {"proc/self/status": "CapEff:\t000001ffffffffff"}))
    assert {found[name].status for name in ("ptrace scope", "GPU performance counters")} == {"ok"}


def test_in_a_container_the_advice_is_its_option(tmp_path: Path) -> None:
    found = checks_by_name(build(tmp_path, XEON, NO_TRACING, CGROUP_V2, {".dockerenv": ""}))
    assert found["ptrace scope"].advice.startswith("start the container with --cap-add SYS_PTRACE")
    assert "--cap-add SYS_ADMIN" in found["GPU performance counters"].advice
    assert "--gpus all" in found["device gpu"].advice
    assert "1.5 CPUs" in found["CPU quota"].found
    assert "--cpus of docker" in found["CPU quota"].advice
    assert found["memory limit"].found == "8 GiB of 1008 GiB"
    assert "--memory" in found["memory limit"].advice


def test_in_a_batch_job_the_advice_is_the_option_of_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4")
    found = checks_by_name(build(tmp_path, CGROUP_V2))
    assert "--cpus-per-task of slurm" in found["CPU quota"].advice


def test_a_thread_setting_below_the_usable_cpus_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    check = checks_by_name(tmp_path)["thread settings"]
    assert (check.status, check.advice) == ("warn", "unset OMP_NUM_THREADS")
    assert check.found.startswith("OMP_NUM_THREADS=0, with ")


def test_devices_without_hardware_are_missing(tmp_path: Path) -> None:
    found = checks_by_name(tmp_path)
    assert found["device cpu"].status == "ok"
    assert found["device gpu"].status == found["device tpu"].status == "missing"
    assert "looked for" in found["device gpu"].found


def test_the_time_limits_of_a_hosted_notebook_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    check = checks_by_name(tmp_path)["session"]
    assert check.status == "ok"
    assert HOSTED["colab"].duration in check.found
    assert HOSTED["colab"].idle in check.found


def test_a_missing_backend_has_the_install_command(tmp_path: Path) -> None:
    found = checks_by_name(tmp_path)
    assert found[f"backend {ANY_BACKEND}"].found.startswith(ANY_BACKEND)
    for backend in ("tensorflow", "jax", "torch"):
        check = found[f"backend {backend}"]
        assert check.advice == ("" if check.status == "ok" else install_framework(backend, "cpu"))


@pytest.mark.needs("gcc")
def test_persistence_mode_off_has_the_command_and_an_mps_server_is_listed() -> None:
    script = (
        "from accelbench.doctor import checks\nfor check in checks(): print(check.name, check.status, check.advice)"
    )
    lines = run_with_driver(script, STUB_MPS="0").splitlines()
    (mode,) = [line for line in lines if line.startswith("gpu 0 persistence mode ")]
    assert mode.split()[4:] == ["warn", "sudo", "nvidia-smi", "-pm", "1"]
    assert "gpu 0 MPS server ok " in lines


def test_a_missing_home_directory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert (check_home().status, check_home().advice) == ("missing", "export HOME=$(mktemp -d)")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_home().status == "ok"


def test_folders_that_are_not_writable_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file at the path stops even root."""
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way / "cache"))
    assert (check_cache().status, check_cache().advice) == ("warn", "export XDG_CACHE_HOME=DIRECTORY")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    assert check_cache().status == "ok"
    assert not (tmp_path / "new").exists()  # the check does not create it
    assert check_temporary().status == "ok"


def test_the_tables_contain_every_check_and_literal_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = collect()
    monkeypatch.setattr("accelbench.doctor.trials", lambda: iter([Check("py-spy", "missing", "not permitted")]))
    shown = [
        Check("backend jax", "missing", "not installed", "pip install 'accelbench[jax]'"),
        Check("load", "ok", "0"),
        Check("swap", "warn", "1 MiB in use", "sudo swapoff -a", "pages are read from the disk"),
    ]
    output = io.StringIO()
    render_doctor(environment, shown, PlainConsole(file=output, width=200))
    text = output.getvalue()
    assert "pip install 'accelbench[jax]'" in text
    assert "not permitted" in text
    assert text.count("pages are read") == 1
    assert text.rstrip().endswith("1 warning (swap); 2 missing (backend jax, py-spy).")
    assert "pages are read from the disk" in text
    assert f"{environment.cpu.logical} logical CPUs" in text
    for fact, reason in environment.unknown.items():
        assert f"unknown: {fact}: {reason}" in text


@pytest.mark.needs("gcc")
def test_a_machine_with_a_gpu_is_described() -> None:
    text = run_with_driver(
        "from accelbench.profiling.machine.environment.collect import collect; print(collect().model_dump_json())"
    )
    lines = dict(describe(Environment.model_validate_json(text)))
    assert lines["GPU"] == "0: Stub GPU 0, 80 GiB, vendor nvidia, compute capability 9.0"
    assert re.findall(r"[\d.]+", lines["CUDA"]) == ["580.95.05", "12.8"]


@pytest.mark.slow
def test_the_command_prints_all_checks_with_status_0(accelbench: Run) -> None:
    done = accelbench("doctor", HOME=None)
    assert done.returncode == 0, done.stderr
    assert "device cpu" in done.stdout
    assert "temporary directory" in done.stdout
    assert "py-spy" in done.stdout
    assert "profile plug-in" in done.stdout


BOOSTED = {"sys/devices/system/cpu/intel_pstate/no_turbo": "0", "sys/devices/system/cpu/smt/active": "1"}


def test_boost_and_smt_are_found_with_the_commands_to_disable_them(tmp_path: Path) -> None:
    found = checks_by_name(build(tmp_path, XEON, BOOSTED))
    assert found["CPU boost"].status == found["hardware threads"].status == "warn"
    assert "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo" in found["CPU boost"].advice
    assert "taskset -c 0-111 accelbench run" in found["hardware threads"].advice
    assert "echo off | sudo tee /sys/devices/system/cpu/smt/control" in found["hardware threads"].advice


def test_disabled_boost_is_ok_and_unknown_boost_has_no_check(tmp_path: Path) -> None:
    quiet = {"sys/devices/system/cpu/cpufreq/boost": "0", "sys/devices/system/cpu/smt/active": "0"}
    found = checks_by_name(build(tmp_path / "quiet", quiet))
    assert found["CPU boost"].status == found["hardware threads"].status == "ok"
    loud = checks_by_name(build(tmp_path / "amd", {"sys/devices/system/cpu/cpufreq/boost": "1"}))
    assert "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost" in loud["CPU boost"].advice
    assert not {"CPU boost", "hardware threads"} & checks_by_name(build(tmp_path / "bare", {})).keys()


def test_current_load_names_processes_and_steal_time() -> None:
    busy = load_check(ObservedLoad(1.4, 0.0, 2, ("ffmpeg (PID 42, 98%)",)))
    assert (busy.status, busy.found) == ("warn", "1.4 of 2 CPUs in use")
    assert "kill -STOP PID" in busy.advice
    assert "ffmpeg (PID 42, 98%)" in busy.advice
    assert load_check(ObservedLoad(0.05, 0.0, 2, ())).status == "ok"
    stolen = load_check(ObservedLoad(0.05, 0.08, 2, ()))
    assert stolen.status == "warn"
    assert "8% steal" in stolen.found
    assert load_check(observe_load()).name == "load now"


def test_a_slower_cpu_is_named_with_the_command_to_exclude_it() -> None:
    here = collect()

    def speeds(bandwidths: dict[int, float]) -> Check | None:
        return check_cpu_speeds(here.model_copy(update={"cpu": here.cpu.model_copy(update={"bandwidths": bandwidths})}))

    slower = speeds({0: 250e9, 1: 140e9, 2: 249e9})
    assert slower
    assert slower.status == "warn"
    assert "CPU 1 " in slower.found
    assert slower.advice == "taskset -c 0,2 accelbench run …"
    alike = speeds({0: 250e9, 1: 245e9})
    assert alike
    assert alike.status == "ok"
    assert speeds({}) is None


def test_a_setting_that_limits_a_library_is_named_with_the_command_to_remove_it() -> None:
    here = collect()
    cpu = here.cpu.model_copy(update={"isa": ["avx2", "avx512f"], "usable": 1})
    software = here.software.model_copy(update={"settings": {"OPENBLAS_CORETYPE": "Haswell"}, "threads": {}})
    check = check_library_settings(here.model_copy(update={"cpu": cpu, "software": software}))
    assert (check.status, check.advice) == ("warn", "unset OPENBLAS_CORETYPE")
    assert all(word in check.found for word in ("OpenBLAS", "AVX2", "AVX-512"))


def test_the_advice_on_affinity_names_the_online_cpus(tmp_path: Path) -> None:
    files = {"sys/devices/system/cpu/online": "0,2-5", "proc/self/status": "Cpus_allowed_list:\t2"}
    assert "taskset -c 0,2-5 " in checks_by_name(build(tmp_path, files))["CPU affinity"].advice


def test_a_load_that_is_not_counted_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    still = quiet.psutil.cpu_times()
    monkeypatch.setattr(quiet.psutil, "cpu_times", lambda: still)
    monkeypatch.setattr(quiet, "LOOK_SECONDS", 0.01)
    load = observe_load()
    assert (load.used, load.is_busy, load_check(load).status) == (None, False, "warn")
