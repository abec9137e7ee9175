"""Settings below what the CPU has: named only where they are, and only for the libraries that do the work."""

from __future__ import annotations

import pytest

from accelbench.execution.plan import discover
from accelbench.profiling.benchmark import Benchmark, Task
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.software import SETTINGS
from accelbench.profiling.machine.held_back import BLAS, ONEDNN, VARIABLES, held_back
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
    ("user", "settings", "words"),
    [
        (BLAS, {"OPENBLAS_CORETYPE": "Haswell"}, "OPENBLAS_CORETYPE=Haswell keeps OpenBLAS to AVX2"),
        (BLAS, {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}, "MKL_ENABLE_INSTRUCTIONS=AVX2 keeps MKL to AVX2"),
        ("tensorflow", {"ONEDNN_MAX_CPU_ISA": "avx2"}, "ONEDNN_MAX_CPU_ISA=avx2 keeps oneDNN to AVX2"),
        (ONEDNN, {"ONEDNN_MAX_CPU_ISA": "AVX"}, "ONEDNN_MAX_CPU_ISA=AVX keeps oneDNN to AVX"),
        ("torch", {"DNNL_MAX_CPU_ISA": "SSE41"}, "DNNL_MAX_CPU_ISA=SSE41 keeps oneDNN to SSE 4.2"),
        ("torch", {"ATEN_CPU_CAPABILITY": "default"}, "ATEN_CPU_CAPABILITY=default keeps PyTorch to SSE 4.2"),
        ("jax", {"XLA_FLAGS": "--xla_a=1 --xla_cpu_max_isa=AVX"}, "--xla_cpu_max_isa=AVX keeps XLA to AVX"),
    ],
)
def test_a_setting_below_the_cpu_is_named(user: str, settings: dict[str, str], words: str) -> None:
    (found,) = held_back(machine(AVX512, **settings), {user})
    assert words in found
    assert found.endswith("and this CPU has AVX-512")


@pytest.mark.parametrize("coretype", ["SkylakeX", "Cooperlake", "SapphireRapids", "of the future", ""])
def test_a_setting_that_is_not_below_the_cpu_is_not_named(coretype: str) -> None:
    assert held_back(machine(AVX512, OPENBLAS_CORETYPE=coretype), {BLAS}) == []


def test_the_same_setting_holds_no_cpu_back_that_has_no_more() -> None:
    assert held_back(machine(["avx", "avx2", "fma"], OPENBLAS_CORETYPE="Haswell"), {BLAS}) == []
    assert held_back(machine(["asimd", "sve"], OPENBLAS_CORETYPE="Haswell"), {BLAS}) == []


def test_a_setting_of_a_library_that_does_not_do_the_work_is_not_named() -> None:
    there = machine(AVX512, OPENBLAS_CORETYPE="Haswell", ATEN_CPU_CAPABILITY="avx2")
    assert held_back(there, set()) == []
    assert held_back(there, {"jax"}) == []
    assert held_back(there, {ONEDNN}) == []


def test_a_blas_with_fewer_threads_than_cpus_is_named() -> None:
    assert held_back(machine(AVX512, {"openblas": "1"}, usable=4), {BLAS}) == [
        "openblas has 1 thread, and this process may use 4 CPUs"
    ]
    assert held_back(machine(AVX512, {"openblas": "4"}, usable=4), {BLAS}) == []


def test_every_such_variable_is_in_the_environment_record() -> None:
    assert set(VARIABLES) <= set(SETTINGS)


def test_the_vendors_product_says_that_a_library_does_its_work() -> None:
    held = machine(AVX512, OPENBLAS_CORETYPE="Haswell")
    point = Point("matmul", "cpu", {"impl": "vendor", "dtype": "float32", "n": 64})
    found = measure(discover()["matmul"], point, held, 0.1)
    assert found.held_back == ["OPENBLAS_CORETYPE=Haswell keeps OpenBLAS to AVX2, and this CPU has AVX-512"]
    (row,) = make_rows([found.model_copy(update={"noise": []})])
    assert "held back" in [flag.word for flag in row.flags]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_the_vendors_product_of_narrow_numbers_says_that_onednn_does_its_work(dtype: str) -> None:
    held = machine(AVX512, OPENBLAS_CORETYPE="Haswell", ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2")
    point = Point("matmul", "cpu", {"impl": "vendor", "dtype": dtype, "n": 64})
    found = measure(discover()["matmul"], point, held, 0.1)
    assert found.held_back == ["ONEDNN_MAX_CPU_ISA=AVX2 keeps oneDNN to AVX2, and this CPU has AVX-512"]


def test_our_own_kernels_are_not_held_back_by_the_settings_of_a_library() -> None:
    held = machine(AVX512, OPENBLAS_CORETYPE="Haswell")
    found = measure(Benchmark("own", own_kernel, ("cpu",), {}, "items"), Point("own", "cpu", {}), held, 0.1)
    assert (found.status, found.held_back) == ("measured", [])


def own_kernel(point: Point) -> Task:
    return Task(lambda: None, lambda: Verification(passed=True, method="none"), Work(items=1))
