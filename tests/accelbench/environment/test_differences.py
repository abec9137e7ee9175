"""Tests of the differences between two environments."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from accelbench.environment.differences import differences, same_machine
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device
from tests.fixtures.compare_runs import gpu, machine


def found(a: Environment, b: Environment, device: Device = "cpu") -> list[tuple[str, str, str, bool]]:
    """Return the field, both values and whether it matters, for each difference."""
    return [dataclasses.astuple(difference) for difference in differences(a, b, {device})]


@pytest.mark.parametrize(
    ("parts", "fact", "a", "b"),
    [
        ({"cpu": {"model": "EPYC 9965"}}, "cpu.model", "EPYC 9654", "EPYC 9965"),
        ({"cpu": {"governor": "powersave"}}, "cpu.governor", "performance", "powersave"),
        ({"cpu": {"one_core_kind": "E-core"}}, "cpu.one_core_kind", "none", "E-core"),
        ({"cpu": {"usable": 2}}, "cpu.usable", "4", "2"),
        ({"limits": {"cpu_quota": 1.5}}, "limits.cpu_quota", "none", "1.5 CPUs"),
        ({"software": {"blas": "MKL 2025.0"}}, "software.blas", "OpenBLAS 0.3.28", "MKL 2025.0"),
        ({"software": {"threads": {"OMP_NUM_THREADS": "1"}}}, "software.threads.OMP_NUM_THREADS", "4", "1"),
        ({"software": {"libraries": {"numpy": "2.2.0"}}}, "software.libraries.numba", "0.61.0", "none"),
        ({"cuda": {"driver": "580.65"}}, "cuda.driver", "550.54", "580.65"),
        ({"gpus": [gpu(power_limit_w=350.0)]}, "gpus.0.power_limit_w", "none", "350 W"),
        ({"gpus": [gpu("NVIDIA H100")]}, "gpus", "NVIDIA H200", "NVIDIA H100"),
        ({"gpus": [gpu(), gpu(index=1)]}, "gpus", "NVIDIA H200", "NVIDIA H200, NVIDIA H200"),
    ],
)
def test_fields_that_matter_are_returned_with_both_values(parts: dict[str, Any], fact: str, a: str, b: str) -> None:
    assert found(machine(), machine(**parts), "gpu") == [(fact, a, b, True)]


def test_lists_are_compared_by_their_missing_items() -> None:
    a, b = machine(cpu={"isa": ["avx2", "fma"]}), machine(cpu={"isa": ["fma", "avx2", "avx512f"]})
    assert found(a, b) == [("cpu.isa", "nothing more", "avx512f", True)]


def test_fields_that_matter_come_first_in_a_fixed_order() -> None:
    b = machine(system={"kernel": "6.12"}, cpu={"governor": "powersave"}, cuda={"driver": "580.65"})
    fields = found(machine(), b, "gpu")
    assert [fact for fact, *_ in fields] == ["cuda.driver", "cpu.governor", "system.kernel"]
    assert [matters for *_, matters in fields] == [True, True, False]


def test_gpus_do_not_matter_for_runs_on_the_cpu() -> None:
    assert found(machine(), machine(gpus=[], cuda=None)) == [
        ("gpus", "NVIDIA H200", "none", False),
        ("cuda.driver", "550.54", "none", False),
        ("cuda.driver_cuda", "12.4", "none", False),
    ]


@pytest.mark.parametrize(
    "software",
    [
        {"libraries": {"numpy": "2.2.0", "numba": "0.61.0", "nvidia-cublas-cu12": "12.9"}},
        {"libraries": {"numpy": "2.2.0", "numba": "0.61.0", "cupy-cuda13x": "14.0"}},
        {"settings": {"CUDA_MODULE_LOADING": "EAGER"}},
    ],
)
def test_packages_and_settings_of_cuda_matter_only_for_gpus(software: dict[str, Any]) -> None:
    assert [matters for *_, matters in found(machine(), machine(software=software), "gpu")] == [True]
    assert [matters for *_, matters in found(machine(), machine(software=software), "cpu")] == [False]


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        ("--xla_a=1 --xla_b=2", "--xla_b=2 --xla_a=1", False),
        ("--xla_a=1 --xla_b=2", "--xla_a=1 --xla_b=3", True),
        ("--xla_a=1 --xla_a=2", "--xla_a=2 --xla_a=1", True),
    ],
)
def test_the_order_of_flags_is_a_difference_only_for_repeated_flags(a: str, b: str, differ: bool) -> None:
    one, other = (machine(software={"settings": {"XLA_FLAGS": flags}}) for flags in (a, b))
    assert found(one, other) == ([("software.settings.XLA_FLAGS", a, b, True)] if differ else [])


def test_the_order_of_loaded_libraries_is_no_difference() -> None:
    a, b = "openblas 0.3.31 Haswell pthreads, openblas 0.3.30 Haswell pthreads", "openblas 0.3.30 Haswell pthreads"
    other = f"{b}, openblas 0.3.31 Haswell pthreads"
    assert found(machine(software={"blas": a}), machine(software={"blas": other})) == []
    assert found(machine(software={"blas": a}), machine(software={"blas": b})) == [("software.blas", a, b, True)]


def test_an_unknown_value_has_its_reason() -> None:
    b = machine(cpu={"governor": None}, unknown={"cpu.governor": "the kernel shows none"})
    assert found(machine(), b) == [("cpu.governor", "performance", "unknown: the kernel shows none", True)]


def test_values_that_vary_between_readings_are_no_difference() -> None:
    a, b = machine(cpu={"frequency_mhz": 3700.0}), machine(cpu={"frequency_mhz": 3690.0})
    assert found(a, b.model_copy(update={"memory": b.memory.model_copy(update={"available_bytes": 1})})) == []
    assert [fact for fact, *_ in found(a, machine(cpu={"frequency_mhz": 2400.0}))] == ["cpu.frequency_mhz"]


def test_equal_environments_have_no_differences() -> None:
    assert found(machine(), machine(), "gpu") == []


def test_same_machine_depends_on_cpu_and_gpus_and_not_on_software() -> None:
    assert same_machine(machine(), machine(cuda={"driver": "580.65"}, software={"blas": "MKL 2025.0"}))
    assert not same_machine(machine(), machine(cpu={"model": "EPYC 9965"}))
    assert not same_machine(machine(), machine(gpus=[gpu(uuid_hash="ba9876543210")]))
    assert not same_machine(machine(), machine(gpus=[]))


def test_another_gpu_of_the_same_model_is_a_difference_that_does_not_matter() -> None:
    other = machine(gpus=[gpu(uuid_hash="ba9876543210")])
    assert found(machine(), other, "gpu") == [("gpus.0.uuid_hash", "0123456789ab", "ba9876543210", False)]


def test_memory_is_formatted_in_binary_units() -> None:
    assert found(machine(), machine(memory={"total_bytes": 128 << 30})) == [
        ("memory.total_bytes", "64 GiB", "128 GiB", False)
    ]
