"""The environment record: right on machines of many kinds, silent about what it cannot read, and never telling."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiling.environment.collect import collect
from profiling.environment.container import CONTAINER_VARIABLES, IMAGE_VARIABLE
from profiling.environment.cpu import collect_cpu, collect_energy, collect_throttle_count, parse_size
from profiling.environment.files import format_cpu_list, parse_cpu_list
from profiling.environment.limits import Throttling, collect_limits, collect_throttling, parse_cpu_max
from profiling.environment.memory import collect_memory
from profiling.environment.model import Environment
from profiling.environment.software import collect_libraries, collect_revision, collect_variables, without_paths
from profiling.environment.system import RUNTIME_VARIABLES, SCHEDULER_VARIABLES, collect_system
from tests.profiling.machines import CGROUP_V1, CGROUP_V2, GRACE, XEON, build
from tests.profiling.stub_driver import run_with_driver

UNTIMED = settings(deadline=None)  # other work on the machine is no failure
MARKERS = [*CONTAINER_VARIABLES, *RUNTIME_VARIABLES, *SCHEDULER_VARIABLES, "container"]


@pytest.fixture(autouse=True)
def no_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in a container or a batch job."""
    for name in MARKERS:
        monkeypatch.delenv(name, raising=False)


# --- processors ---


def test_a_two_socket_xeon_is_described(tmp_path: Path) -> None:
    cpu = collect_cpu(build(tmp_path, XEON))
    assert (cpu.model, cpu.vendor) == ("Intel(R) Xeon(R) Platinum 8480+", "GenuineIntel")
    assert (cpu.family, cpu.model_number) == (6, 143)
    assert (cpu.sockets, cpu.cores, cpu.logical, cpu.numa_nodes) == (2, 112, 224, 2)
    assert {"avx2", "fma", "avx512f", "avx512_fp16", "amx_bf16"} <= set(cpu.isa)
    assert "ssse3" not in cpu.isa
    assert (cpu.governor, cpu.frequency_mhz, cpu.hypervisor) == ("powersave", 3800.0, None)
    assert [(c.level, c.kind, c.size_bytes, c.shared_by) for c in cpu.caches] == [
        (1, "Data", 48 << 10, 2),
        (1, "Instruction", 32 << 10, 2),
        (2, "Unified", 2 << 20, 2),
        (3, "Unified", 105 << 20, 112),
    ]


def test_an_arm_processor_is_named_by_its_numbers(tmp_path: Path) -> None:
    cpu = collect_cpu(build(tmp_path, GRACE))
    assert (cpu.model, cpu.vendor) == ("Neoverse-V2", "ARM")
    assert (cpu.cores, cpu.logical, cpu.numa_nodes) == (72, 72, 1)
    assert cpu.sockets is None  # its firmware says −1
    assert {"asimd", "sve2", "bf16", "i8mm"} <= set(cpu.isa)
    assert (cpu.governor, cpu.frequency_mhz) == ("performance", 3402.0)


def test_governors_that_differ_are_all_named(tmp_path: Path) -> None:
    governor = "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"
    assert collect_cpu(build(tmp_path, XEON, {governor: "performance"})).governor == "performance, powersave"


@pytest.mark.parametrize(
    ("flags", "files", "hypervisor"),
    [
        ("fma hypervisor", {"sys/class/dmi/id/sys_vendor": "QEMU"}, "kvm"),
        ("fma hypervisor", {"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "nitro"),
        ("fma hypervisor", {}, "unnamed"),
        ("fma", {"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, None),  # a metal instance
        ("fma", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock"}, "kvm"),
    ],
)
def test_the_hypervisor_is_named_where_it_shows(
    tmp_path: Path, flags: str, files: dict[str, str], hypervisor: str | None
) -> None:
    root = build(tmp_path, {"proc/cpuinfo": f"processor : 0\nflags : {flags}"}, files)
    assert collect_cpu(root).hypervisor == hypervisor


def test_heat_and_energy_are_summed_over_the_machine(tmp_path: Path) -> None:
    zones = "sys/class/powercap"
    rapl = {
        f"{zones}/intel-rapl:0/name": "package-0",
        f"{zones}/intel-rapl:0/energy_uj": "500",
        f"{zones}/intel-rapl:0/max_energy_range_uj": "1000",
        f"{zones}/intel-rapl:0:0/name": "core",
        f"{zones}/intel-rapl:0:0/energy_uj": "70",
        f"{zones}/intel-rapl:0:0/max_energy_range_uj": "1000",
    }
    root = build(tmp_path, XEON, rapl)
    assert collect_throttle_count(root) == 7
    assert collect_energy(root) == {"intel-rapl:0": (500, 1000)}  # the cores are a part of the package


# --- control groups ---


def test_the_tightest_quota_of_version_2_counts(tmp_path: Path) -> None:
    root = build(tmp_path, CGROUP_V2)
    limits = collect_limits(root)
    assert (limits.cpu_quota, limits.memory_bytes) == (1.5, 8 << 30)
    assert collect_throttling(root) == Throttling(periods=42, seconds=2.0)


def test_version_1_in_a_container_is_read_from_the_visible_top(tmp_path: Path) -> None:
    root = build(tmp_path, CGROUP_V1)
    limits = collect_limits(root)
    assert limits.cpu_quota == 0.5  # that of version 1, not what the unified hierarchy beside it says
    assert limits.memory_bytes is None  # version 1's way of writing "no limit"
    assert collect_throttling(root) == Throttling(periods=3, seconds=1.2)


def test_a_group_outside_the_visible_ones_falls_back_to_the_top(tmp_path: Path) -> None:
    elsewhere = {"proc/self/cgroup": "0::/../../elsewhere", "sys/fs/cgroup/cpu.max": "200000 100000"}
    assert collect_limits(build(tmp_path, CGROUP_V2, elsewhere)).cpu_quota == 2.0


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    limits = collect_limits(tmp_path)
    assert (limits.cpu_quota, limits.memory_bytes) == (None, None)
    assert collect_throttling(tmp_path) is None


@UNTIMED
@given(st.integers(1_000, 10**9), st.integers(1_000, 1_000_000))
def test_a_cpu_max_is_its_quota_over_its_period(quota: int, period: int) -> None:
    assert parse_cpu_max(f"{quota} {period}") == quota / period
    assert parse_cpu_max(f"{quota}\n") == quota / 100_000
    assert parse_cpu_max(f"max {period}") is None


@UNTIMED
@given(st.sets(st.integers(0, 4096)))
def test_a_cpu_list_reads_back_as_it_was_written(numbers: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(list(numbers))) == sorted(numbers)


@UNTIMED
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9)), min_size=1))
def test_a_cpu_list_of_any_ranges_is_their_union(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" for first, more in ranges)
    assert parse_cpu_list(text) == sorted({n for first, more in ranges for n in range(first, first + more + 1)})


@UNTIMED
@given(st.text(alphabet="0123456789,-", max_size=6))
def test_a_cpu_list_is_parsed_or_refused(text: str) -> None:
    try:
        numbers = parse_cpu_list(text)
    except ValueError:
        return
    assert numbers == sorted(set(numbers))


@UNTIMED
@given(st.integers(0, 1 << 20), st.sampled_from(["", "K", "M", "G"]))
def test_a_cache_size_is_in_powers_of_1024(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * 1024 ** ["", "K", "M", "G"].index(unit)


# --- memory and system ---


def test_memory_is_in_bytes(tmp_path: Path) -> None:
    memory = collect_memory(build(tmp_path, XEON))
    assert memory.total_bytes == 1056484896 * 1024
    assert (memory.available_bytes, memory.swap_bytes) == (990000000 * 1024, 33554428 * 1024)
    assert memory.huge_pages == "never"


def test_the_system_is_named(tmp_path: Path) -> None:
    system = collect_system(build(tmp_path, XEON))
    assert (system.os, system.kernel) == ("Rocky Linux 9.4 (Blue Onyx)", "5.14.0-427.el9.x86_64")
    assert (system.container, system.scheduler, system.runtime) == (None, None, None)
    assert system.clock_source == "tsc"


@pytest.mark.parametrize(
    ("file", "text", "engine"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        (".singularity.d/runscript", "", "apptainer"),
        ("var/run/secrets/kubernetes.io/serviceaccount/namespace", "", "kubernetes"),
        ("proc/self/cgroup", "4:cpu:/kubepods/burstable/pod1", "kubernetes"),
        ("proc/self/cgroup", "0::/machine.slice/libpod-1.scope", "podman"),
        ("proc/self/cgroup", "0::/user.slice", None),
    ],
)
def test_a_container_is_known_by_its_marker(tmp_path: Path, file: str, text: str, engine: str | None) -> None:
    assert collect_system(build(tmp_path, {file: text})).container == engine


@pytest.mark.parametrize(
    ("variable", "value", "fact", "word"),
    [
        ("APPTAINER_CONTAINER", "/images/a.sif", "container", "apptainer"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1", "container", "kubernetes"),
        ("container", "podman", "container", "podman"),
        ("container", "something private", "container", None),
        ("SLURM_JOB_ID", "17", "scheduler", "slurm"),
        ("PBS_JOBID", "17.host", "scheduler", "pbs"),
        ("COLAB_RELEASE_TAG", "r1", "runtime", "colab"),
    ],
)
def test_a_variable_tells_what_the_process_runs_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, fact: str, word: str | None
) -> None:
    monkeypatch.setenv(variable, value)
    assert getattr(collect_system(tmp_path), fact) == word


@pytest.mark.parametrize(
    ("told", "recorded"),
    [("sha256:" + "0f" * 32, "sha256:" + "0f" * 32), ("/home/alice/accelbench.sif", None), ("", None)],
)
def test_the_image_is_known_by_its_digest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, recorded: str | None
) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, told)
    assert collect_system(tmp_path).image == recorded


@pytest.mark.parametrize(
    ("uid_map", "mapped"),
    [
        ("         0          0 4294967295", False),
        ("0 100000 65536", True),
        ("0 1000 1\n1 100000 65536", True),
        ("", None),
    ],
)
def test_a_user_namespace_is_known_by_its_mapping(tmp_path: Path, uid_map: str, mapped: bool | None) -> None:
    assert collect_system(build(tmp_path, {"proc/self/uid_map": uid_map})).user_namespace is mapped


@pytest.mark.parametrize(
    ("restricted", "capabilities", "allowed"),
    [("1", "0", False), ("1", "200000", True), ("0", "0", True), (None, "200000", None)],  # 1 << 21: CAP_SYS_ADMIN
)
def test_gpu_counters_want_an_open_module_or_an_administrator(
    tmp_path: Path, restricted: str | None, capabilities: str, allowed: bool | None
) -> None:
    module = {"proc/driver/nvidia/params": f"RmProfilingAdminOnly: {restricted}"} if restricted else {}
    build(tmp_path, module | {"proc/self/status": f"CapEff:\t{capabilities}"})
    assert collect_system(tmp_path).gpu_counters is allowed


def test_an_image_has_the_revision_that_it_was_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELBENCH_REVISION", "0f" * 20 + "-dirty")
    assert collect_revision(tmp_path) == "0f" * 20 + "-dirty"
    monkeypatch.setenv("ACCELBENCH_REVISION", "my own")
    assert collect_revision(tmp_path) is None


@pytest.mark.parametrize(
    ("version", "runtime"),
    [
        ("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016", "gvisor"),
        ("Linux version 4.19.0-gvisor #1 SMP", "gvisor"),
        ("Linux version 5.15.153.1-microsoft-standard-WSL2", "wsl"),
        ("Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)", None),
    ],
)
def test_a_stand_in_kernel_is_known_by_its_version(tmp_path: Path, version: str, runtime: str | None) -> None:
    assert collect_system(build(tmp_path, {"proc/version": version})).runtime == runtime


# --- software ---


def test_the_libraries_are_those_installed() -> None:
    import numpy
    import psutil

    found = collect_libraries()
    assert (found["numpy"], found["psutil"]) == (numpy.__version__, psutil.__version__)


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        ("--xla_dump_to=/home/alice/dump --xla_gpu_autotune_level=4", "--xla_dump_to=… --xla_gpu_autotune_level=4"),
        ("~/secret", "…"),
        (r"C:\Users\alice", "…"),
        ("threads(4),close", "threads(4),close"),
        ("alice/secret,granularity=fine", "…,granularity=fine"),
    ],
)
def test_no_path_gets_through_a_setting(value: str, recorded: str) -> None:
    assert without_paths(value) == recorded


def test_only_listed_variables_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    assert collect_variables(("OMP_NUM_THREADS", "MKL_NUM_THREADS")) == {"OMP_NUM_THREADS": "3"}
    assert "hunter2" not in collect().model_dump_json()


def test_the_revision_is_that_of_the_checkout_and_says_when_it_was_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert collect_revision(tmp_path) is None
    git("init", "--quiet")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "--message", "one")
    git("tag", "v1")  # a tag must not stand for the commit
    commit = git("rev-parse", "HEAD")
    assert collect_revision(tmp_path) == commit
    (tmp_path / "file").write_text("two")
    assert collect_revision(tmp_path) == f"{commit}-dirty"


# --- the whole ---


def test_this_machine_is_described_and_reads_back() -> None:
    environment = collect()
    assert environment.cpu.logical >= environment.cpu.usable >= 1
    assert environment.memory.total_bytes > environment.memory.available_bytes > 0
    assert environment.software.blas
    assert Environment.model_validate_json(environment.model_dump_json()) == environment


def test_an_empty_machine_is_all_null_with_reasons(tmp_path: Path) -> None:
    environment = collect(tmp_path, libcuda="libno-such-driver.so")
    assert (environment.cpu.model, environment.cpu.cores, environment.system.container) == (None, None, None)
    assert environment.memory.total_bytes > 0
    assert {"cpu.model", "cpu.governor", "cpu.numa_nodes", "memory.huge_pages", "gpus"} <= environment.unknown.keys()


def test_every_unknown_fact_is_null_and_every_reason_is_text(tmp_path: Path) -> None:
    environment = collect(build(tmp_path, GRACE), libcuda="libno-such-driver.so")
    for fact, reason in environment.unknown.items():
        part, _, field = fact.partition(".")
        value = getattr(environment, part)
        assert not (getattr(value, field) if field else value), fact
        assert len(reason) > 10


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def test_nothing_names_the_person_the_host_or_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/srv/private")
    found = list(strings(json.loads(collect().model_dump_json())))
    for secret in (socket.gethostname(), getpass.getuser(), os.path.expanduser("~"), os.getcwd()):
        assert not any(re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text) for text in found), secret
    assert not any("/srv" in text for text in found)


def test_collecting_loads_no_framework() -> None:
    heavy = {"tensorflow", "keras", "cupy", "numba", "torch", "jax", "pandas", "scipy"}
    script = "import sys; from profiling.environment.collect import collect; collect(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint(heavy)


# --- GPUs, as a stub of the driver shows them ---

COLLECT = "from profiling.environment.collect import collect; print(collect().model_dump_json())"


def test_a_gpu_is_described_without_naming_it() -> None:
    text = run_with_driver(COLLECT)
    environment = Environment.model_validate_json(text)
    (gpu,) = environment.gpus
    assert (gpu.index, gpu.name, gpu.memory_bytes) == (0, "Stub GPU 0", 80 << 30)
    assert (gpu.compute_capability, gpu.multiprocessors, gpu.l2_bytes) == ("9.0", 132, 50 << 20)
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz, gpu.power_limit_w) == (1980, 2619, 700)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, None, False)  # MIG is not supported there
    assert gpu.pcie_width is None
    assert re.fullmatch(r"[0-9a-f]{12}", gpu.uuid_hash)
    assert "11111111-1111" not in text
    assert environment.cuda is not None
    assert (environment.cuda.driver, environment.cuda.driver_cuda) == ("580.95.05", "12.8")


def test_two_cards_have_two_hashes_and_cudas_order() -> None:
    first, second = Environment.model_validate_json(run_with_driver(COLLECT, STUB_COUNT="2")).gpus
    assert (first.index, second.index) == (0, 1)
    assert first.uuid_hash != second.uuid_hash
    assert (first.power_limit_w, second.power_limit_w) == (700, None)  # NVML does not know the second


def test_a_driver_that_refuses_leaves_its_reason() -> None:
    environment = Environment.model_validate_json(run_with_driver(COLLECT, STUB_CUINIT="802"))
    assert environment.gpus == []
    assert environment.unknown["gpus"] == "cuInit answered CUDA_ERROR_SYSTEM_NOT_READY"
    assert environment.cuda is not None
