"""Tests of limiting settings: reported only below the CPU's capability and only for the libraries in use."""

from __future__ import annotations

import re

import pytest

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Benchmark, Task
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.software import SETTINGS
from accelbench.profiling.machine.limiting_settings import BLAS, ONEDNN, VARIABLES, limiting_settings
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from accelbench.report.rows import make_rows

AVX512 = ["sse4_2", "avx", "fma", "avx2", "avx512f", "avx512bw"]


def machine(isa: list[str], threads: dict[str, str] | None = None, usable: int = 2, **settings: str) -> Environment:
    found = collect()
    cpu = found.cpu.model_copy(update={"isa": isa, "usable": usable})
    software = found.software.model_copy(update={"settings": settings, "threads": threads or {}})
    return found.model_copy(update={"cpu": cpu, "software": software})


@pytest.mark.parametrize(
    ("user", "settings", "named"),
    [
        (BLAS, {"OPENBLAS_CORETYPE": "Haswell"}, ("OPENBLAS_CORETYPE=Haswell ", "AVX2")),
        (BLAS, {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}, ("MKL_ENABLE_INSTRUCTIONS=AVX2 ", "AVX2")),
        ("tensorflow", {"ONEDNN_MAX_CPU_ISA": "avx2"}, ("ONEDNN_MAX_CPU_ISA=avx2 ", "AVX2")),
        (ONEDNN, {"ONEDNN_MAX_CPU_ISA": "AVX"}, ("ONEDNN_MAX_CPU_ISA=AVX ", "AVX")),
        ("torch", {"DNNL_MAX_CPU_ISA": "SSE41"}, ("DNNL_MAX_CPU_ISA=SSE41 ", "SSE 4.2")),
        ("torch", {"ATEN_CPU_CAPABILITY": "default"}, ("ATEN_CPU_CAPABILITY=default ", "SSE 4.2")),
        ("jax", {"XLA_FLAGS": "--xla_a=1 --xla_cpu_max_isa=AVX"}, ("--xla_cpu_max_isa=AVX ", "AVX")),
    ],
)
def test_a_setting_below_the_cpu_is_named(user: str, settings: dict[str, str], named: tuple[str, str]) -> None:
    (found,) = limiting_settings(machine(AVX512, **settings), {user})
    setting, level = named
    assert setting in found
    assert f"to {level} (" in found
    assert "AVX-512" in found


@pytest.mark.parametrize("coretype", ["SkylakeX", "Cooperlake", "SapphireRapids", "of the future", ""])
def test_a_setting_at_or_above_the_cpus_level_is_not_named(coretype: str) -> None:
    assert limiting_settings(machine(AVX512, OPENBLAS_CORETYPE=coretype), {BLAS}) == []


def test_a_setting_at_the_cpus_own_level_is_not_named() -> None:
    assert limiting_settings(machine(["avx", "avx2", "fma"], OPENBLAS_CORETYPE="Haswell"), {BLAS}) == []
    assert limiting_settings(machine(["asimd", "sve"], OPENBLAS_CORETYPE="Haswell"), {BLAS}) == []


def test_a_setting_of_an_unused_library_is_not_named() -> None:
    environment = machine(AVX512, OPENBLAS_CORETYPE="Haswell", ATEN_CPU_CAPABILITY="avx2")
    assert limiting_settings(environment, set()) == []
    assert limiting_settings(environment, {"jax"}) == []
    assert limiting_settings(environment, {ONEDNN}) == []


def test_a_blas_with_fewer_threads_than_cpus_is_named() -> None:
    (found,) = limiting_settings(machine(AVX512, {"openblas": "1"}, usable=4), {BLAS})
    assert found.startswith("openblas ")
    assert re.findall(r"\d+", found) == ["1", "4"]
    assert limiting_settings(machine(AVX512, {"openblas": "4"}, usable=4), {BLAS}) == []


def test_every_variable_is_in_the_environment_record() -> None:
    assert set(VARIABLES) <= set(SETTINGS)


def test_the_vendor_matmul_on_a_limited_blas_is_flagged() -> None:
    held = machine(AVX512, OPENBLAS_CORETYPE="Haswell")
    point = Point("matmul", "cpu", {"impl": "vendor", "dtype": "float32", "n": 64})
    found = measure(discover()["matmul"], point, held, 0.1)
    assert [text.split()[0] for text in found.held_back] == ["OPENBLAS_CORETYPE=Haswell"]
    (row,) = make_rows([found.model_copy(update={"noise": []})])
    assert "limited by settings" in [flag.word for flag in row.flags]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_the_vendor_matmul_of_narrow_dtypes_on_a_limited_onednn_is_flagged(dtype: str) -> None:
    held = machine(AVX512, OPENBLAS_CORETYPE="Haswell", ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2")
    point = Point("matmul", "cpu", {"impl": "vendor", "dtype": dtype, "n": 64})
    found = measure(discover()["matmul"], point, held, 0.1)
    assert [text.split()[0] for text in found.held_back] == ["ONEDNN_MAX_CPU_ISA=AVX2"]


def test_kernels_without_a_library_are_not_limited_by_library_settings() -> None:
    held = machine(AVX512, OPENBLAS_CORETYPE="Haswell")
    found = measure(Benchmark("own", own_kernel, ("cpu",), {}, "items"), Point("own", "cpu", {}), held, 0.1)
    assert (found.status, found.held_back) == ("measured", [])


def own_kernel(point: Point) -> Task:
    return Task(lambda: None, lambda: Verification(passed=True, method="none"), Work(items=1))
