"""Dot-product instructions: exact where this CPU has them, and the right ones in the code for other CPUs."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite import ir

from kernels import dots
from kernels.dots import INSTRUCTIONS, dot_chains, dot_tile, emit_chains, emit_tile, find_dot
from kernels.matmul import cpu_dots, formats, matmul
from kernels.matmul.shapes import Product
from kernels.peak_arith import cpu_dots as peak_dots
from kernels.peak_arith import peak_arith
from profiling.benchmark import Skip
from profiling.records.point import Point

DTYPES = ("int8", "bfloat16")


def needs(dtype: str) -> None:
    if find_dot(dtype, matrix=False) is None:
        pytest.skip(f"this CPU has no dot-product instruction for {dtype}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(
    m=st.integers(1, 100), n=st.integers(1, 100), k=st.integers(1, 700), batch=st.integers(1, 3),
    threads=st.integers(1, 3), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@example(m=1, n=1, k=1, batch=1, threads=1, seed=0)
@example(m=29, n=33, k=2051, batch=2, threads=2, seed=0)
@settings(max_examples=30, deadline=None)
def test_whole_numbers_are_multiplied_exactly_at_any_size(
    dtype: str, m: int, n: int, k: int, batch: int, threads: int, seed: int
) -> None:
    needs(dtype)
    rng = np.random.default_rng(seed)
    low, high = (-128, 128) if dtype == "int8" else (-8, 9)
    a, b = (rng.integers(low, high, shape) for shape in ((batch, m, k), (batch, k, n)))
    kind = formats.FORMATS[formats.FORMATS[dtype].result]
    c = np.full((batch, m, n), 0x7F, kind.storage)
    stored = [formats.to_storage(x.astype(np.float32), dtype) for x in (a, b)]
    cpu_dots.Multiplier(Product(m, n, k, batch), dtype, threads)(*stored, c)
    exact = a @ b
    expected = exact if dtype == "int8" else formats.to_storage(exact.astype(np.float32), dtype)
    np.testing.assert_array_equal(c, expected)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@example([0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x3F808000, 0x3F818000, 0x7F7FFFFF])
@settings(deadline=None)
def test_sums_are_rounded_to_bfloat16_as_ml_dtypes_does(bits: list[int]) -> None:
    drawn = np.array(bits, np.uint32)
    rounded = np.empty(len(drawn), np.uint16)
    cpu_dots.round_to_bfloat16(drawn, rounded)
    found = formats.from_storage(rounded, "bfloat16")
    with np.errstate(invalid="ignore", over="ignore"):
        expected = formats.from_storage(formats.to_storage(drawn.view(np.float32), "bfloat16"), "bfloat16")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ceiling_is_exact_also_after_many_executions(dtype: str) -> None:
    needs(dtype)
    task = peak_arith(Point("peak-arith", "cpu", {"dtype": dtype, "cores": "one"}, seed=3))
    for _ in range(3):
        task.run()
    assert task.verify().passed


def test_a_chain_that_is_one_instruction_short_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("int8")
    monkeypatch.setattr(peak_dots, "find_tile_dot", lambda dtype: None)
    honest = peak_dots.run_rounds
    monkeypatch.setattr(peak_dots, "run_rounds", lambda sums, f, steps, stride: honest(sums, f, steps - 1, stride))
    assert not peak_arith(Point("peak-arith", "cpu", {"dtype": "int8", "cores": "one"}, seed=3)).verify().passed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("impl", ["vendor", "dots"])
def test_a_product_runs_verifies_and_counts_its_work(impl: str, dtype: str) -> None:
    try:
        task = matmul(Point("matmul", "cpu", {"impl": impl, "dtype": dtype, "n": 97}, seed=11))
    except Skip as skip:
        pytest.skip(str(skip))
    task.run()
    assert task.verify().passed
    assert task.work.flops == 2 * 97**3


@pytest.mark.parametrize("prepare", [cpu_dots.prepare, peak_dots.prepare])
def test_a_cpu_without_the_instruction_skips_with_the_reason(prepare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dots, "features", lambda: frozenset({"avx2"}))
    monkeypatch.setattr(peak_dots, "find_tile_dot", lambda dtype: None)
    with pytest.raises(Skip, match=r"no .*instruction for int8"):
        prepare(Point("any", "cpu", {"dtype": "int8", "cores": "one", "n": 8}, seed=1))


def test_each_cpu_gets_its_widest_instruction() -> None:
    found = {
        ("int8", "avx512f avx512vnni avx2 avxvnni"): ("vpdpbusd", 64),
        ("int8", "avx2 avxvnni avxvnniint8"): ("vpdpbssd", 32),
        ("int8", "neon dotprod i8mm"): ("smmla", 16),
        ("bfloat16", "neon bf16"): ("bfmmla", 16),
    }
    for (dtype, has), expected in found.items():
        dot = find_dot(dtype, has.split())
        assert dot is not None
        assert (dot.name, dot.bytes) == expected
    without = find_dot("int8", ["neon", "dotprod", "i8mm"], matrix=False)
    assert without is not None
    assert without.name == "sdot"


def assembly(dot: dots.Dot, emit: Any) -> str:
    """Return the code for a CPU that has the instruction, of a function of pointers and one whole number."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arm = "neon" in dot.needs
    triple = "aarch64-unknown-linux-gnu" if arm else "x86_64-unknown-linux-gnu"
    module = ir.Module()
    module.triple = triple
    pointers = [ir.IntType(32).as_pointer(), ir.IntType(32).as_pointer(), dot.sum_ir.element.as_pointer()]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, ir.IntType(64)]), "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    emit(builder, *function.args)
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    names = ",".join(f"+{name}" for name in sorted(dot.needs))
    machine = llvm.Target.from_triple(triple).create_target_machine(features=names, opt=3)
    return str(machine.emit_assembly(parsed))


@pytest.mark.parametrize("dot", INSTRUCTIONS, ids=lambda dot: f"{dot.name}-{dot.bytes}")
def test_the_chains_are_of_that_instruction_on_a_cpu_that_has_it(
    dot: dots.Dot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dots, "vector_registers", lambda: 16 if dot.bytes == 32 else 32)

    def emit(builder: Any, a: Any, b: Any, c: Any, steps: Any) -> None:
        factors = [builder.bitcast(pointer, dots._words(dot).as_pointer()) for pointer in (a, b)]
        first = builder.bitcast(c, dot.sum_ir.as_pointer())
        sums = [builder.gep(first, [ir.IntType(64)(i)]) for i in range(dot_chains())]
        emit_chains(dot, builder, sums, factors, steps)

    code = assembly(dot, emit)
    names = ("vfmadd231ph", "vfmadd213ph") if dot.dtype == "float16" and dot.bytes == 64 else (dot.name,)
    made = sum(
        line.split()[0] in names or line.split()[1:2] == [dot.name] for line in code.splitlines() if line.strip()
    )
    assert made == dot_chains()


@pytest.mark.parametrize(
    "dot",
    [dot for dot in INSTRUCTIONS if dot.dtype != "float16" and not dot.matrix],
    ids=lambda dot: f"{dot.name}-{dot.bytes}",
)
def test_the_tile_is_of_that_instruction_on_a_cpu_that_has_it(dot: dots.Dot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dots, "vector_registers", lambda: 16 if dot.bytes == 32 else 32)

    def emit(builder: Any, a: Any, b: Any, c: Any, steps: Any) -> None:
        emit_tile(dot, builder, steps, a, b, c, ir.IntType(64)(100), c)

    code = assembly(dot, emit)
    rows, _columns = dot_tile(dot)
    made = sum(dot.name in line.split()[:2] for line in code.splitlines())
    assert made == 2 * rows
