"""The doctor: each obstacle is found on a machine that has it, with the command or flag that mends it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from accelbench.doctor import Check, check_cache, check_home, check_temporary, checks, describe, render_doctor
from accelbench.doctor.quiet import check_cpu_speeds, check_held_back, judge_load, try_load
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


def look(root: Path) -> dict[str, Check]:
    return {check.name: check for check in checks(root)}


def test_every_obstacle_is_found_with_its_remedy(tmp_path: Path) -> None:
    found = look(build(tmp_path, XEON, NO_TRACING))
    remedies = {
        "CPU governor": "sudo cpupower frequency-set -g performance",
        "transparent huge pages": "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        "swap": "sudo swapoff -a && sudo swapon -a",
        "load": "top -o %CPU tells by whom",
        "ptrace scope": "sudo sysctl kernel.yama.ptrace_scope=0",
        "GPU performance counters": "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in "
        "/etc/modprobe.d, then reboot",
    }
    assert {name: found[name].advice for name in remedies} == remedies
    assert {found[name].status for name in remedies} == {"warn"}
    assert found["swap"].found == "28 GiB in use"
    assert found["load"].found == "12.5 over the last minute"


def test_a_process_kept_to_some_of_the_cpus_is_told_so(tmp_path: Path) -> None:
    check = look(build(tmp_path, {"sys/devices/system/cpu/online": "0-4095"}))["CPU affinity"]
    assert check.status == "warn"
    assert "of 4096 CPUs (" in check.found
    assert "taskset -c 0-4095" in check.advice


def test_what_cannot_be_seen_is_not_judged(tmp_path: Path) -> None:
    found = look(build(tmp_path, GRACE))
    assert found["CPU governor"].status == "ok"
    assert not {"load", "swap", "transparent huge pages", "GPU performance counters"} & found.keys()


def test_privileges_make_the_restrictions_harmless(tmp_path: Path) -> None:
    """A root with every capability may trace, count and profile whatever the settings say."""
    found = look(build(tmp_path, XEON, NO_TRACING, {"proc/self/status": "CapEff:\t000001ffffffffff"}))
    assert {found[name].status for name in ("ptrace scope", "GPU performance counters")} == {"ok"}


def test_inside_a_container_the_remedy_is_its_flag(tmp_path: Path) -> None:
    found = look(build(tmp_path, XEON, NO_TRACING, CGROUP_V2, {".dockerenv": ""}))
    assert found["ptrace scope"].advice.startswith("start the container with --cap-add SYS_PTRACE, or on the host: ")
    assert "--cap-add SYS_ADMIN" in found["GPU performance counters"].advice
    assert "--gpus all" in found["device gpu"].advice
    assert (found["CPU quota"].found, found["CPU quota"].advice) == (
        "1.5 CPUs' worth of time",
        "raise docker's --cpus, or leave it out",
    )
    assert found["memory limit"].found == "8 GiB of 1008 GiB"
    assert "--memory" in found["memory limit"].advice


def test_inside_a_batch_job_the_remedy_is_the_schedulers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4")
    found = look(build(tmp_path, CGROUP_V2))
    assert found["CPU quota"].advice == "raise slurm's --cpus-per-task, or leave it out"


def test_a_thread_setting_below_the_cpus_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    check = look(tmp_path)["thread settings"]
    assert (check.status, check.advice) == ("warn", "unset OMP_NUM_THREADS")
    assert check.found.startswith("OMP_NUM_THREADS=0, with ")


def test_the_devices_are_those_that_can_be_found(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert found["device cpu"].status == "ok"
    assert found["device gpu"].status == found["device tpu"].status == "missing"
    assert "looked for" in found["device gpu"].found


def test_a_backend_is_installed_or_told_how_to(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert found[f"backend {ANY_BACKEND}"].found.startswith(ANY_BACKEND)
    for backend in ("tensorflow", "jax", "torch"):
        check = found[f"backend {backend}"]
        assert check.advice == ("" if check.status == "ok" else install_framework(backend, "cpu"))


@pytest.mark.needs("gcc")
def test_a_gpu_whose_driver_unloads_is_told_the_command() -> None:
    script = (
        "from accelbench.doctor import checks\nfor check in checks(): print(check.name, check.status, check.advice)"
    )
    assert "gpu 0 persistence mode warn sudo nvidia-smi -pm 1" in run_with_driver(script).splitlines()


def test_no_home_directory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert check_home() == Check("home directory", "missing", "there is none", "export HOME=$(mktemp -d)")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_home().status == "ok"


def test_folders_that_cannot_be_written_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file in the way stops even root."""
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way / "cache"))
    assert (check_cache().status, check_cache().advice) == ("warn", "export XDG_CACHE_HOME=DIRECTORY")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    assert (check_cache().status, "can be made" in check_cache().found) == ("ok", True)
    assert not (tmp_path / "new").exists()  # looking leaves no trace
    assert check_temporary().status == "ok"


def test_the_table_shows_every_check_and_takes_brackets_literally() -> None:
    environment = collect()
    shown = [
        Check("backend jax", "missing", "not installed", "pip install 'accelbench[jax]'"),
        Check("load", "ok", "0"),
        Check("swap", "warn", "1 MiB in use", "sudo swapoff -a", "pages are read from the disk"),
    ]
    output = io.StringIO()
    render_doctor(environment, shown, PlainConsole(file=output, width=200))
    text = output.getvalue()
    assert "pip install 'accelbench[jax]'" in text
    assert "as it is: pages are read from the disk" in text
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
    assert lines["CUDA"] == "driver 580.95.05, serves CUDA 12.8"


@pytest.mark.slow
def test_the_command_prints_it_all_and_ends_well(accelbench: Run) -> None:
    done = accelbench("doctor", HOME=None)
    assert done.returncode == 0, done.stderr
    assert "device cpu" in done.stdout
    assert "temporary directory" in done.stdout
    assert "py-spy" in done.stdout
    assert "profile plug-in" in done.stdout


BOOSTED = {"sys/devices/system/cpu/intel_pstate/no_turbo": "0", "sys/devices/system/cpu/smt/active": "1"}


def test_boost_and_hardware_threads_are_found_with_the_commands_that_end_them(tmp_path: Path) -> None:
    found = look(build(tmp_path, XEON, BOOSTED))
    assert found["CPU boost"].status == found["hardware threads"].status == "warn"
    assert "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo" in found["CPU boost"].advice
    assert "taskset -c 0-111 accelbench run" in found["hardware threads"].advice
    assert "echo off | sudo tee /sys/devices/system/cpu/smt/control" in found["hardware threads"].advice


def test_boost_that_is_off_is_well_and_of_what_the_kernel_hides_nothing_is_said(tmp_path: Path) -> None:
    quiet = {"sys/devices/system/cpu/cpufreq/boost": "0", "sys/devices/system/cpu/smt/active": "0"}
    found = look(build(tmp_path / "quiet", quiet))
    assert found["CPU boost"].status == found["hardware threads"].status == "ok"
    loud = look(build(tmp_path / "amd", {"sys/devices/system/cpu/cpufreq/boost": "1"}))
    assert "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost" in loud["CPU boost"].advice
    assert not {"CPU boost", "hardware threads"} & look(build(tmp_path / "bare", {})).keys()


def test_the_load_of_the_moment_names_who_makes_it_and_what_the_hypervisor_takes() -> None:
    busy = judge_load(1.4, 0.0, 2, ["ffmpeg (process 42, 98%)"])
    assert (busy.status, busy.found) == ("warn", "1.4 of 2 CPUs in use")
    assert "kill -STOP PID" in busy.advice
    assert "ffmpeg (process 42, 98%)" in busy.advice
    assert judge_load(0.05, 0.0, 2, []).status == "ok"
    assert "taken by the hypervisor" in judge_load(0.05, 0.08, 2, []).found
    assert try_load().name == "load now"


def test_a_slower_cpu_is_named_with_the_command_that_leaves_it_out() -> None:
    here = collect()

    def speeds(bandwidths: dict[int, float]) -> Check | None:
        return check_cpu_speeds(here.model_copy(update={"cpu": here.cpu.model_copy(update={"bandwidths": bandwidths})}))

    slower = speeds({0: 250e9, 1: 140e9, 2: 249e9})
    assert slower
    assert (slower.status, slower.found) == ("warn", "CPU 1 ×1.79 slower than CPU 0")
    assert slower.advice == "taskset -c 0,2 accelbench run …"
    alike = speeds({0: 250e9, 1: 245e9})
    assert alike
    assert alike.status == "ok"
    assert speeds({}) is None


def test_a_setting_that_holds_a_library_back_is_named_with_the_command_that_removes_it() -> None:
    here = collect()
    cpu = here.cpu.model_copy(update={"isa": ["avx2", "avx512f"], "usable": 1})
    software = here.software.model_copy(update={"settings": {"OPENBLAS_CORETYPE": "Haswell"}, "threads": {}})
    check = check_held_back(here.model_copy(update={"cpu": cpu, "software": software}))
    assert (check.status, check.advice) == ("warn", "unset OPENBLAS_CORETYPE")
    assert "keeps OpenBLAS to AVX2, and this CPU has AVX-512" in check.found
