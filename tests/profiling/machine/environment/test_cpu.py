"""Tests of processor facts, on fake roots of several machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.machine.environment.caches import parse_size
from accelbench.profiling.machine.environment.cpu import (
    collect_cpu,
    collect_energy,
    collect_throttle_count,
    cores_before_threads,
)
from accelbench.profiling.machine.environment.files import format_cpu_list, parse_cpu_list
from tests.fixtures.machines import GRACE, XEON, build
from tests.fixtures.odd_machines import MACHINES

UNTIMED = settings(deadline=None)  # the machine may be busy


def test_facts_of_a_two_socket_xeon(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("siblings", "order"),
    [
        (["0,2", "1,3", "0,2", "1,3"], [0, 1, 2, 3]),
        (["0-1", "0-1", "2-3", "2-3"], [0, 2, 1, 3]),
        (["0", "1", None, "3"], [0, 1, 2, 3]),
    ],
)
def test_cores_come_before_their_second_hardware_threads(
    tmp_path: Path, siblings: list[str | None], order: list[int]
) -> None:
    path = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    root = build(tmp_path, {path.format(number): text for number, text in enumerate(siblings) if text})
    assert cores_before_threads([3, 2, 1, 0], root) == order


def test_cores_of_the_fastest_kind_come_first(tmp_path: Path) -> None:
    root = build(tmp_path, MACHINES["an Alder Lake"].files)
    assert cores_before_threads(range(6), root) == [0, 2, 4, 5, 1, 3]
    root = build(tmp_path / "other", MACHINES["a GB10"].files)
    assert cores_before_threads(range(4), root) == [2, 3, 0, 1]


def test_an_arm_processor_is_named_by_implementer_and_part(tmp_path: Path) -> None:
    cpu = collect_cpu(build(tmp_path, GRACE))
    assert (cpu.model, cpu.vendor) == ("Neoverse-V2", "ARM")
    assert (cpu.cores, cpu.logical, cpu.numa_nodes) == (72, 72, 1)
    assert cpu.sockets is None  # its firmware reports −1
    assert {"asimd", "sve2", "bf16", "i8mm"} <= set(cpu.isa)
    assert (cpu.governor, cpu.frequency_mhz) == ("performance", 3402.0)


def test_different_governors_are_all_named(tmp_path: Path) -> None:
    governor = "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"
    assert collect_cpu(build(tmp_path, XEON, {governor: "performance"})).governor == "performance, powersave"


@pytest.mark.parametrize(
    ("flags", "files", "hypervisor"),
    [
        ("fma hypervisor", {"sys/class/dmi/id/sys_vendor": "QEMU"}, "kvm"),
        ("fma hypervisor", {"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "nitro"),
        ("fma hypervisor", {}, "unnamed"),
        ("fma", {"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, None),  # a bare-metal instance
        ("fma", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock"}, "kvm"),
    ],
)
def test_the_hypervisor_is_detected(tmp_path: Path, flags: str, files: dict[str, str], hypervisor: str | None) -> None:
    root = build(tmp_path, {"proc/cpuinfo": f"processor : 0\nflags : {flags}"}, files)
    assert collect_cpu(root).hypervisor == hypervisor


@pytest.mark.parametrize(
    ("vendor", "product", "hypervisor"),
    [("Amazon EC2", "m7g.large", "nitro"), ("Amazon EC2", "m7g.metal", None), ("Ampere(R)", "Altra", None)],
)
def test_the_hypervisor_of_an_arm_guest_is_that_of_its_firmware(
    tmp_path: Path, vendor: str, product: str, hypervisor: str | None
) -> None:
    files = {"sys/class/dmi/id/sys_vendor": vendor, "sys/class/dmi/id/product_name": product}
    root = build(tmp_path, {"proc/cpuinfo": "processor : 0\nFeatures : fp asimd"}, files)
    assert collect_cpu(root).hypervisor == hypervisor


def test_there_are_at_least_as_many_cpus_as_may_be_used(tmp_path: Path) -> None:
    """LXCFS lists CPU 0 only, for a container with one CPU of quota and two CPUs of affinity."""
    files = {"sys/devices/system/cpu/online": "0", "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-1"}
    cpu = collect_cpu(build(tmp_path, files))
    assert (cpu.logical, cpu.usable, cpu.affinity) == (2, 2, [0, 1])


def test_throttle_counts_and_package_energy(tmp_path: Path) -> None:
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
    assert collect_energy(root) == {"intel-rapl:0": (500, 1000)}  # the package includes its cores


@UNTIMED
@given(st.sets(st.integers(0, 4096)))
def test_a_cpu_list_survives_formatting_and_parsing(numbers: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(list(numbers))) == sorted(numbers)


@UNTIMED
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9)), min_size=1))
def test_a_cpu_list_of_any_ranges_is_their_union(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" for first, more in ranges)
    assert parse_cpu_list(text) == sorted({n for first, more in ranges for n in range(first, first + more + 1)})


@UNTIMED
@given(st.text(alphabet="0123456789,-", max_size=6))
def test_any_cpu_list_is_parsed_or_a_value_error(text: str) -> None:
    try:
        numbers = parse_cpu_list(text)
    except ValueError:
        return
    assert numbers == sorted(set(numbers))


@UNTIMED
@given(st.integers(0, 1 << 20), st.sampled_from(["", "K", "M", "G"]))
def test_a_cache_size_is_in_powers_of_1024(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * 1024 ** ["", "K", "M", "G"].index(unit)
