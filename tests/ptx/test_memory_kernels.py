"""The kernels bound by memory, executed from their PTX: results, and no invalid access or data race."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ptx.kernels import Bench, named
from tests.ptx.sources import module_of

pytestmark = pytest.mark.needs("g++")

Check = Callable[[Bench, np.random.Generator], None]


def reduce_sum(dtype: str, length: int, blocks: int) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of(f"reduce numba {dtype}")
        (sum_type,) = [wide for narrow, wide in module.KERNELS if narrow == dtype]
        x = rng.integers(-9, 9, length).astype(dtype)
        sums, out = bench.result(blocks, sum_type), bench.result(1, sum_type)
        bench.run(f"reduce numba {dtype}", blocks, module.THREADS, bench.given(x), sums)
        bench.run(f"reduce numba {sum_type}", 1, module.THREADS, sums, out)
        assert out.array[0] == x.sum()

    return check


def norm(rows: int, width: int) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of("norm numba")
        x, scale = rng.standard_normal((rows, width), np.float32), rng.random(width, np.float32)
        out = bench.result((rows * width,), np.float32)
        bench.run("norm numba", rows, module.THREADS, bench.given(x.ravel()), bench.given(scale), out, np.int64(width))
        wide = x.astype(np.float64)
        expected = wide / np.sqrt(np.mean(wide**2, axis=1, keepdims=True) + module.EPSILON) * scale
        np.testing.assert_allclose(out.array.reshape(rows, width), expected, rtol=2e-6)

    return check


def softmax(rows: int, width: int) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of("softmax-xent numba")
        scores = 3 * rng.standard_normal((rows, width), np.float32)
        labels = rng.integers(0, max(1, width - 4), rows, np.int32)
        if width > 4:  # in each element of an access of 16 bytes
            labels += ((np.arange(rows) - (np.arange(rows) * width + labels)) % 4).astype(np.int32)
        losses, gradient = bench.result(rows, np.float32), bench.result((rows * width,), np.float32)
        bench.run(
            "softmax-xent numba", rows, module.THREADS,
            bench.given(scores.ravel()), bench.given(labels), losses, gradient, np.int64(width),
        )  # fmt: skip
        wide, each = scores.astype(np.float64), np.arange(rows)
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        shares = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(losses.array, -np.log(shares[each, labels]), rtol=1e-5, atol=1e-6)
        shares[each, labels] -= 1
        np.testing.assert_allclose(gradient.array.reshape(rows, width), shares / rows, rtol=1e-5, atol=1e-7)

    return check


def optimizer(length: int) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of("optimizer-step numba")
        before = [rng.random(length, np.float32) for _ in range(4)]
        parameter, gradient, mean, square = (bench.changed(array) for array in before)
        bench.run("optimizer-step numba", 2, module.THREADS, parameter, gradient, mean, square)
        p, g, m, v = (array.astype(np.float64) for array in before)
        m = module.KEEP_1 * m + module.TAKE_1 * g
        v = module.KEEP_2 * v + module.TAKE_2 * g**2
        p = module.KEPT * p - module.STRIDE * m / (np.sqrt(module.UNBIAS * v) + module.ADDED)
        for found, expected in ((parameter, p), (mean, m), (square, v)):
            np.testing.assert_allclose(found.array, expected, rtol=1e-6)
        np.testing.assert_array_equal(gradient.array, before[1])

    return check


ELEMENTWISE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "copy": lambda x, y, s: x,
    "mul": lambda x, y, s: s * x,
    "add": lambda x, y, s: x + y,
    "triad": lambda x, y, s: x + s * y,
}


def stream_numba(op: str, dtype: str, length: int) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of(f"stream numba {op} {dtype}")
        threads = module.THREADS
        x, y = (rng.integers(-99, 99, length).astype(dtype) for _ in range(2))
        given = bench.given(x), bench.given(y)
        if op == "dot":
            sums, out = bench.result(2, dtype), bench.result(1, dtype)
            bench.run(f"stream numba dot {dtype}", 2, threads, *given, sums)
            bench.run(f"stream numba dot-total {dtype}", 1, threads, sums, out)
            assert out.array[0] == np.dot(x, y)
        else:
            s, out = np.dtype(dtype).type(3), bench.result(length, dtype)
            bench.run(f"stream numba {op} {dtype}", module.tiles(length, dtype), threads, *given, s, out)
            np.testing.assert_array_equal(out.array, ELEMENTWISE[op](x, y, s))

    return check


def stream_cupy(op: str, dtype: str, vectors: int) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of(f"stream cupy {op} {dtype}")
        threads = module.THREADS
        x, y = (rng.integers(-99, 99, vectors * 16 // np.dtype(dtype).itemsize).astype(dtype) for _ in range(2))
        given = bench.given(x), bench.given(y)
        if op == "dot":
            sums, out = bench.result(2, dtype), bench.result(1, dtype)
            bench.run(f"stream cupy dot {dtype}", 2, threads, *given, sums, np.int64(vectors))
            bench.run(f"stream cupy dot-total {dtype}", 1, threads, sums, np.int32(2), out)
            assert out.array[0] == np.dot(x, y)
        else:
            s, out = np.dtype(dtype).type(3), bench.result(len(x), dtype)
            bench.run(f"stream cupy {op} {dtype}", module.tiles(vectors), threads, *given, s, out, np.int64(vectors))
            np.testing.assert_array_equal(out.array, ELEMENTWISE[op](x, y, s))

    return check


def atomics(target: str, dtype: str, additions: int = 5) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of(f"atomics {target} {dtype}")
        threads = 2 * module.THREADS
        count = 1 << module.RANDOM_BITS if target == "random" else threads
        start, values = rng.integers(-7, 8, count).astype(dtype), module.draw_values(rng, target, dtype, threads)
        seeds = rng.integers(0, 1 << 32, threads, np.uint32)
        counters = bench.changed(start)
        given = bench.given(values), bench.given(seeds)
        bench.run(f"atomics {target} {dtype}", 2, module.THREADS, counters, *given, np.int32(additions))
        expected = module.expected_counters(target, start, values, seeds, additions)
        np.testing.assert_array_equal(counters.array, expected)

    return check


def launches(kind: str) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        counter = bench.changed(np.zeros(1, np.int64))
        for _ in range(3):
            bench.run(f"launch {kind} empty", 1, 1)
            bench.run(f"launch {kind} count", 1, 1, counter)
        assert counter.array[0] == 3

    return check


def peak_arithmetic(dtype: str) -> Check:
    def check(bench: Bench, rng: np.random.Generator) -> None:
        module = module_of(f"peak-arith {dtype}")
        starts, factors = module.draw(rng, module.THREADS, dtype)
        given = [bench.given(module.to_words(array, dtype)) for array in (starts, factors)]
        for turns in (0, 2):
            answers, cycles = bench.result(module.THREADS, module.FORMATS[dtype].bits), bench.result(1, np.int64)
            bench.run(f"peak-arith {dtype}", 1, module.THREADS, *given, np.int32(turns), answers, cycles)
            np.testing.assert_array_equal(answers.array, module.expected_answers(starts, factors, turns, dtype))
            assert cycles.array[0] > 0

    return check


def cache_bandwidth(bench: Bench, rng: np.random.Generator) -> None:
    module, passes = module_of("cache bandwidth"), 2
    words = rng.integers(0, 1 << 32, 3 * module.STEP // 4, np.uint32)
    vectors, sums = words.nbytes // 16, bench.result((2, module.THREADS), np.uint32)
    loads = passes * vectors // module.THREADS
    bench.run("cache bandwidth", 2, module.THREADS, bench.given(words), np.uint32(vectors), np.uint32(loads), sums)
    assert (sums.array.sum(axis=1, dtype=np.uint64) % 2**32 == module.expected_sum(words, passes)).all()


def cache_latency(bench: Bench, rng: np.random.Generator) -> None:
    """A chain of pointers: the addresses are the device's own."""
    module, lines, steps = module_of("cache latency"), 50, 33
    memory = bench.changed(np.zeros((lines, module.LINE // 8), np.uint64))
    order = rng.permutation(lines)
    addresses = memory.address + module.LINE * order.astype(np.uint64)
    memory.array[order, 0] = np.roll(addresses, -1)
    state = bench.changed(np.array([addresses[0], 0], np.uint64))
    arguments = np.uint64(memory.address), np.uint32(lines), np.uint32(steps), state
    counts = bench.run("cache latency", 1, module.THREADS, *arguments)
    assert state.array[0] == addresses[steps]
    text = bench.text(named("cache latency")).splitlines()
    loads = [i for i, line in enumerate(text, 1) if re.search(r"ld\.global\.[bu]64", line)]
    filling, *others = (counts.lines.get(i, 0) for i in loads)
    # Two warps read the 50 lines; then one thread reads its start and the steps.
    assert (filling, sum(others)) == (2, 1 + steps)


def in_turn(*checks: Check) -> Check:
    """Return a check of one kernel with several sizes, for which it is compiled once."""

    def check(bench: Bench, rng: np.random.Generator) -> None:
        for each in checks:
            each(bench, rng)

    return check


FAST: dict[str, Check] = {
    "reduce float32": reduce_sum("float32", 4 * 256 * 3 * 4 + 7, 3),
    "norm": norm(3, 1001),
    "softmax": softmax(4, 4001),
    "optimizer": optimizer(4 * 256 * 2 + 3),
    "stream numba dot": stream_numba("dot", "float32", 4 * 2148 + 3),
    "stream cupy triad": stream_cupy("triad", "float32", 2148),
    "atomics block": atomics("block", "float32"),
}
SLOW: dict[str, Check] = {
    **{f"reduce {dtype}": reduce_sum(dtype, 9000, 3) for dtype in ("float64", "int32", "int64")},
    "reduce of one": reduce_sum("float32", 1, 2),
    **{f"norm {rows}x{width}": norm(rows, width) for rows, width in ((5, 3), (2, 1024), (1, 1), (4, 132))},
    **{f"softmax {rows}x{width}": softmax(rows, width) for rows, width in ((3, 1), (2, 5000))},
    "optimizer of few": in_turn(optimizer(1), optimizer(3), optimizer(1025)),
    **{
        f"stream numba {op} {dtype}": in_turn(*(stream_numba(op, dtype, length) for length in (1, 127, 1024, 8611)))
        for op in (*ELEMENTWISE, "dot")
        for dtype in ("float32", "float64")
    },
    **{
        f"stream cupy {op} {dtype}": in_turn(*(stream_cupy(op, dtype, vectors) for vectors in (1, 255, 2148, 4096)))
        for op in (*ELEMENTWISE, "dot")
        for dtype in ("float32", "float64")
    },
    **{
        f"atomics {target} {dtype}": atomics(target, dtype)
        for target in ("one", "warp", "own", "random", "block")
        for dtype in ("int32", "int64", "float32")
    },
    **{f"launch {kind}": launches(kind) for kind in ("numba", "cupy")},
    **{f"peak {dtype}": peak_arithmetic(dtype) for dtype in ("float64", "float32", "float16", "bfloat16")},
    "cache bandwidth": cache_bandwidth,
    "cache latency": cache_latency,
}


@pytest.mark.parametrize("name", FAST)
def test_a_kernel_computes_the_right_results(name: str) -> None:
    FAST[name](Bench(), np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_further_kernels_types_and_sizes(name: str) -> None:
    SLOW[name](Bench(), np.random.default_rng(2))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("place", [0, 300, 511])
def test_a_single_fma_left_out_shows(dtype: str, place: int) -> None:
    def without_one(name: str, text: str) -> str:
        found = list(re.finditer(r"fma\.rn\.[^;]*;", text))[place]
        return text[: found.start()] + text[found.end() :]

    with pytest.raises(AssertionError):
        peak_arithmetic(dtype)(Bench(edit=without_one), np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0), (12, 0)], ids=str)
@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("name", FAST | SLOW)
def test_every_order_of_warps_and_capability(name: str, seed: int, capability: tuple[int, int]) -> None:
    bench = Bench(capability, seed, resident=1 + seed % 3)
    (FAST | SLOW)[name](bench, np.random.default_rng(seed))


def test_a_kernel_that_is_not_listed_is_an_error() -> None:
    with pytest.raises(KeyError):
        named("matmul by hand")
