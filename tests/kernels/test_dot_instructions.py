"""Dot-product instructions: exact results on this CPU, and the expected instructions in the code for other CPUs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite import ir

from accelbench.kernels.lib import formats
from accelbench.kernels.lib.cpu import dot_instructions, simd
from accelbench.kernels.lib.cpu.dot_instructions import INSTRUCTIONS, dot_chains, emit_chains, find_dot, words_of
from accelbench.kernels.lib.cpu.dot_microkernel import dot_tile, emit_tile
from accelbench.kernels.lib.cpu.target import this_cpu
from accelbench.kernels.matmul import cpu_dots, matmul
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.peak_arith import cpu_dots as peak_dots
from accelbench.kernels.peak_arith import peak_arith
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

DTYPES = ("int8", "bfloat16")
WITH_DOTS = [pytest.param(dtype, marks=pytest.mark.needs(f"dot-{dtype}")) for dtype in DTYPES]


def whole_numbers(dtype: str, seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    """Return random whole numbers with exact sums of products: all of int8, small ones of bfloat16."""
    rng = np.random.default_rng(seed)
    low, high = (-128, 128) if dtype == "int8" else (-8, 9)
    return [rng.integers(low, high, shape) for shape in shapes]


def check(product: Product, dtype: str, threads: int, seed: int = 0) -> None:
    m, n, k, batch = product.m, product.n, product.k, product.batch
    a, b = whole_numbers(dtype, seed, (batch, m, k), (batch, k, n))
    kind = formats.FORMATS[formats.FORMATS[dtype].result]
    c = np.full((batch, m, n), 0x7F, kind.storage)
    stored = [formats.to_storage(x.astype(np.float32), dtype) for x in (a, b)]
    cpu_dots.DotMultiplier(product, dtype, threads)(*stored, c)
    exact = a @ b
    expected = exact if dtype == "int8" else formats.to_storage(exact.astype(np.float32), dtype)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("dtype", WITH_DOTS)
@given(
    rows=st.integers(1, 40), beyond=st.integers(0, 9), deep=st.integers(1, 150), columns=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_packed_panels_hold_words_of_a_and_of_b_with_zeros_beyond(
    dtype: str, rows: int, beyond: int, deep: int, columns: int, seed: int
) -> None:
    dot = find_dot(dtype, matrix=False)
    assert dot is not None
    (mr, nr), k, group = dot_tile(dot), deep + beyond, dot.products
    words = -(-deep // group)
    numbers = np.dtype(f"u{4 // group}")
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256**numbers.itemsize, shape).astype(numbers) for shape in ((rows, k), (k, columns)))
    sums = np.zeros(nr, "int32" if dtype == "int8" else "float32")

    packed = np.empty((rows + mr) * (words + 9) + 64, np.uint32)
    cpu_dots.pack_block(a.reshape(-1), beyond, k, rows, deep, packed, sums, cpu_dots.SIGN_BITS)
    filled = np.zeros((rows, words * group), numbers)
    filled[:, :deep] = a[:, beyond:]
    expected = filled.view(np.uint32) ^ cpu_dots.SIGN_BITS
    for i in range(0, rows, mr):
        here = min(mr, rows - i)
        height = mr if here > mr // 2 else mr // 2
        panel = packed[i * words : (i + height) * words].reshape(words, height)
        np.testing.assert_array_equal(panel[:, :here].T, expected[i : i + here])

    panel, width = np.full(words * nr, 7, np.uint32), min(nr, columns)
    edges = np.full(nr * group, 7, numbers)
    cpu_dots.pack_panel(b.reshape(-1), panel, sums, edges, columns, beyond * columns, deep, width, 0)
    filled = np.zeros((nr, words * group), numbers)
    filled[:width, :deep] = b[beyond:, :width].T
    np.testing.assert_array_equal(panel.reshape(words, nr).T, filled.view(np.uint32))
    if dot.unsigned:
        np.testing.assert_array_equal(sums, 128 * filled.view(np.int8).sum(axis=1, dtype=np.int32))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WITH_DOTS)
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
    check(Product(m, n, k, batch), dtype, threads, seed)


def as_three_bfloat16(x: Any) -> Any:
    """Return each float32 as the sum of three bfloat16 along a new last axis, one per byte of the significand."""
    parts = []
    for _ in range(3):
        parts.append((x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))
        x = x - parts[-1]
    return np.stack(parts, axis=-1)


@pytest.mark.slow
@pytest.mark.needs("dot-bfloat16")
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@example([0x7F800000, 0xFF800000, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x3F807FFF, 0x3F808001])
@settings(deadline=None)
def test_sums_are_rounded_to_bfloat16_as_ml_dtypes_does(bits: list[int]) -> None:
    drawn = np.array(bits, np.uint32).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        drawn = drawn[np.isinf(drawn) | (np.abs(drawn) >= 2.0**-100)]  # the instruction flushes denormals to zero
        a = np.where(np.isinf(drawn)[:, None], np.array([1, 0, 0]) * drawn[:, None], as_three_bfloat16(drawn))
        a[np.isnan(a)] = 0
        expected = formats.to_storage(drawn, "bfloat16")
    found = np.empty((1, len(drawn), 1), np.uint16)
    if len(drawn):
        ones = np.ones((1, 3, 1), np.float32)
        stored = [formats.to_storage(x.astype(np.float32), "bfloat16") for x in (a[None], ones)]
        cpu_dots.DotMultiplier(Product(len(drawn), 1, 3), "bfloat16", 1)(*stored, found)
    np.testing.assert_array_equal(found.reshape(-1), expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WITH_DOTS)
@pytest.mark.parametrize("cache", [256, 4096])
@pytest.mark.parametrize("product", [Product(97, 97, 401), Product(13, 150, 700, 2)], ids=str)
def test_caches_too_small_for_one_tile_change_the_parts_of_k_and_not_the_result(
    dtype: str, cache: int, product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_dots, "cache_bytes", lambda level: cache)
    check(product, dtype, 2)


@pytest.mark.parametrize("dtype", WITH_DOTS)
def test_the_ceiling_is_exact_also_after_many_executions(dtype: str) -> None:
    task = peak_arith(Point("peak-arith", "cpu", {"dtype": dtype, "cores": "one"}, seed=3))
    for _ in range(3):
        task.run()
    assert task.verify().passed


@pytest.mark.needs("dot-int8")
def test_a_chain_that_is_one_instruction_short_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_dots, "find_tile_dot", lambda dtype: None)
    honest = peak_dots.run_rounds
    monkeypatch.setattr(peak_dots, "run_rounds", lambda sums, f, steps, stride: honest(sums, f, steps - 1, stride))
    assert not peak_arith(Point("peak-arith", "cpu", {"dtype": "int8", "cores": "one"}, seed=3)).verify().passed


@pytest.mark.parametrize(
    ("impl", "dtype"),
    [
        *(pytest.param("vendor", dtype, marks=pytest.mark.needs("torch")) for dtype in DTYPES),
        *(pytest.param("dots", dtype, marks=pytest.mark.needs(f"dot-{dtype}")) for dtype in DTYPES),
    ],
)
def test_a_product_runs_verifies_and_counts_its_work(impl: str, dtype: str) -> None:
    task = matmul(Point("matmul", "cpu", {"impl": impl, "dtype": dtype, "n": 97}, seed=11))
    task.run()
    assert task.verify().passed
    assert task.work.flops == 2 * 97**3


@pytest.mark.parametrize("prepare", [cpu_dots.prepare, peak_dots.prepare])
def test_a_cpu_without_the_instruction_skips_with_the_reason(prepare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_instructions, "features", lambda: frozenset({"avx2"}))
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


def triple_of(dot: dot_instructions.DotInstruction) -> str:
    return "aarch64-unknown-linux-gnu" if "neon" in dot.needs else "x86_64-unknown-linux-gnu"


def assembly(dot: dot_instructions.DotInstruction, emit: Any) -> str:
    """Return the assembly of an emitted function of pointers and one integer, for a CPU with the instruction."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = triple_of(dot)
    pointers = [ir.IntType(32).as_pointer(), ir.IntType(32).as_pointer(), dot.sum_ir.element.as_pointer()]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, ir.IntType(64)]), "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    emit(builder, *function.args)
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    names = ",".join(f"+{name}" for name in sorted(dot.needs))
    machine = llvm.Target.from_triple(module.triple).create_target_machine(features=names, opt=3)
    return str(machine.emit_assembly(parsed))


@pytest.mark.parametrize("dot", INSTRUCTIONS, ids=lambda dot: f"{dot.name}-{dot.bytes}")
def test_the_chains_are_of_that_instruction_on_a_cpu_that_has_it(
    dot: dot_instructions.DotInstruction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dot_instructions, "vector_registers", lambda: 16 if dot.bytes == 32 else 32)

    def emit(builder: Any, a: Any, b: Any, c: Any, steps: Any) -> None:
        factors = [builder.bitcast(pointer, words_of(dot).as_pointer()) for pointer in (a, b)]
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
def test_the_tile_is_of_that_instruction_and_stays_in_registers_on_a_cpu_that_has_it(
    dot: dot_instructions.DotInstruction, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = replace(this_cpu(), triple=triple_of(dot), features=dot.needs)
    monkeypatch.setattr(simd, "this_cpu", lambda: cpu)
    rows, _columns = dot_tile(dot)

    def emit(builder: Any, a: Any, b: Any, sums: Any, steps: Any) -> None:
        one, no, yes = ir.IntType(64)(1), ir.IntType(1)(0), ir.IntType(1)(1)
        emit_tile(dot, rows, builder, steps, a, b, b, one, sums, sums, sums, one, no, yes)

    code = assembly(dot, emit)
    made = sum(dot.name in line.split()[:2] for line in code.splitlines())
    assert made == 2 * 2 * rows  # two vectors wide, in the loop that prefetches C and in the loop after it
    rounding = sum(name in code for name in ("vcvtneps2bf16", "bfcvt"))
    assert rounding == (dot.dtype == "bfloat16")
    assert not re.findall(r"^.*(?:[yz]mm\d.*%rsp|%rsp.*[yz]mm\d|\bq\d.*\[sp).*$", code, re.MULTILINE)
