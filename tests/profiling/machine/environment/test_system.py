"""Tests of memory and system facts: kernel, container, scheduler, image and permissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.profiling.machine.environment.container import IMAGE_VARIABLE
from accelbench.profiling.machine.environment.memory import collect_memory
from accelbench.profiling.machine.environment.system import collect_system
from tests.fixtures.machines import XEON, build


def test_memory_is_in_bytes(tmp_path: Path) -> None:
    memory = collect_memory(build(tmp_path, XEON))
    assert memory.total_bytes == 1056484896 * 1024
    assert (memory.available_bytes, memory.swap_bytes) == (990000000 * 1024, 33554428 * 1024)
    assert memory.huge_pages == "never"


@pytest.mark.parametrize(
    ("locations", "channels"),
    [
        ({"mc0/dimm0": "channel 0 slot 0", "mc0/dimm1": "channel 0 slot 1", "mc1/dimm0": "channel 0 slot 0"}, 2),
        ({"mc0/rank0": "csrow 0 channel 0", "mc0/rank1": "csrow 0 channel 1", "mc0/rank4": "csrow 1 channel 0"}, 2),
        ({"mc0/dimm0": "branch 0 channel 1 slot 0", "mc0/dimm1": "branch 1 channel 1 slot 0"}, 2),
        ({"mc0/dimm0": "memory 0"}, None),
        ({}, None),
    ],
)
def test_memory_channels_are_counted(tmp_path: Path, locations: dict[str, str], channels: int | None) -> None:
    edac = {f"sys/devices/system/edac/mc/{place}/dimm_location": text for place, text in locations.items()}
    assert collect_memory(build(tmp_path, XEON, edac)).channels == channels


def test_facts_of_a_system(tmp_path: Path) -> None:
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
def test_a_container_is_detected_by_its_marker(tmp_path: Path, file: str, text: str, engine: str | None) -> None:
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
def test_container_scheduler_and_runtime_are_detected_by_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, fact: str, word: str | None
) -> None:
    monkeypatch.setenv(variable, value)
    assert getattr(collect_system(tmp_path), fact) == word


@pytest.mark.parametrize(
    ("stated", "recorded"),
    [("sha256:" + "0f" * 32, "sha256:" + "0f" * 32), ("/home/alice/accelbench.sif", None), ("", None)],
)
def test_only_the_digest_of_an_image_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str, recorded: str | None
) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, stated)
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
def test_a_user_namespace_is_detected_by_its_mapping(tmp_path: Path, uid_map: str, mapped: bool | None) -> None:
    assert collect_system(build(tmp_path, {"proc/self/uid_map": uid_map})).user_namespace is mapped


@pytest.mark.parametrize(
    ("restricted", "capabilities", "allowed"),
    [("1", "0", False), ("1", "200000", True), ("0", "0", True), (None, "200000", None)],  # 1 << 21: CAP_SYS_ADMIN
)
def test_gpu_counters_need_an_unrestricted_module_or_cap_sys_admin(
    tmp_path: Path, restricted: str | None, capabilities: str, allowed: bool | None
) -> None:
    module = {"proc/driver/nvidia/params": f"RmProfilingAdminOnly: {restricted}"} if restricted else {}
    build(tmp_path, module | {"proc/self/status": f"CapEff:\t{capabilities}"})
    assert collect_system(tmp_path).gpu_counters is allowed


@pytest.mark.parametrize(
    ("version", "runtime"),
    [
        ("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016", "gvisor"),
        ("Linux version 4.19.0-gvisor #1 SMP", "gvisor"),
        ("Linux version 5.15.153.1-microsoft-standard-WSL2", "wsl"),
        ("Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)", None),
    ],
)
def test_an_emulated_kernel_is_detected_by_its_version(tmp_path: Path, version: str, runtime: str | None) -> None:
    assert collect_system(build(tmp_path, {"proc/version": version})).runtime == runtime
