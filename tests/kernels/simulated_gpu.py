"""The Numba-CUDA kernels in Numba's simulator; run by `test_gpu_simulator.py` with NUMBA_ENABLE_CUDASIM=1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config, cuda, float32, float64

from kernels.launch import gpu_numba as launch
from kernels.matmul import gpu_numba as matmul
from kernels.matmul.accuracy import verify_product
from kernels.nqueens import gpu_prefix as nqueens
from kernels.nqueens.prefixes import enumerate_prefixes
from kernels.stream import gpu_numba as stream
from kernels.stream.gpu_arrays import longest_chain, verify_dot, verify_elements
from kernels.stream.operations import SCALAR

assert config.ENABLE_CUDASIM, "run with NUMBA_ENABLE_CUDASIM=1"

seeds = st.integers(0, 2**32 - 1)
simulated = settings(max_examples=10, deadline=None)


def multiply(kernel: Any, tile: int, threads: int, n: int, dtype: str, rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
    c = np.full((n, n), np.nan, dtype)
    blocks = -(-n // tile)
    kernel[(blocks, blocks), threads](a, b, c, np.int32(n))
    assert verify_product(a, b, c, dtype, rng).passed
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=n * 1e-5)


@pytest.mark.parametrize(("dtype", "n"), [("float32", 1), ("float32", 129), ("float64", 1), ("float64", 67)])
def test_matmul_multiplies_matrices_that_do_not_fill_its_tiles(dtype: str, n: int) -> None:
    _, tile, threads = matmul.DEFINITIONS[dtype]
    multiply(matmul.KERNELS[dtype], tile, threads, n, dtype, np.random.default_rng(n))


@simulated
@given(n=st.integers(1, 20), seed=seeds)
def test_matmul_multiplies_any_size(n: int, seed: int) -> None:
    function, tile, threads = matmul.define_kernel(float64, 8, 2)
    multiply(cuda.jit(function), tile, threads, n, "float64", np.random.default_rng(seed))


def test_matmul_reads_every_slice_of_the_inner_dimension() -> None:
    function, _, threads = matmul.define_kernel(float32, 8, 2)
    n = 3 * matmul.DEPTH + 1
    rng = np.random.default_rng(0)
    a, c = np.zeros((n, n), np.float32), np.full((n, n), np.nan, np.float32)
    b = rng.standard_normal((n, n)).astype(np.float32)
    a[:, -1] = 1  # only the last column of A counts: it lies in a slice of one column
    cuda.jit(function)[(4, 4), threads](a, b, c, np.int32(n))
    np.testing.assert_array_equal(c, np.broadcast_to(b[-1], (n, n)))


@simulated
@given(
    length=st.integers(1, 700), op=st.sampled_from(sorted(stream.ELEMENTWISE)), seed=seeds,
    dtype=st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_stream_writes_every_element(length: int, op: str, seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    out = np.full(length, np.nan, dtype)
    stream.ELEMENTWISE[op][2, 32](x, y, np.dtype(dtype).type(SCALAR), out)
    assert verify_elements(op, x, y, out).passed


@settings(simulated, max_examples=3)  # 1,024 simulated threads are slow
@given(length=st.integers(1, 2000), dtype=st.sampled_from(["float32", "float64"]), seed=seeds)
def test_dot_sums_every_product(length: int, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    sums, out = np.full(3, np.nan, dtype), np.full(1, np.nan, dtype)
    partial, total = stream.DOT[dtype]
    partial[3, stream.THREADS](x, y, sums)
    total[1, stream.THREADS](sums, out)
    assert verify_dot(x, y, float(out[0]), longest_chain(length, 3, stream.THREADS)).passed


@pytest.mark.parametrize("queens", range(1, 9))
@pytest.mark.parametrize("at_least", [1, 30])
def test_search_counts_the_published_solutions_and_nodes(queens: int, at_least: int) -> None:
    prefixes = enumerate_prefixes(queens, at_least)
    nodes, solutions = (np.full(len(prefixes), 1 << 40, np.uint64) for _ in range(2))
    grid = -(-len(prefixes) // nqueens.THREADS)
    nqueens.search[grid, nqueens.THREADS](
        prefixes.columns, prefixes.left, prefixes.right,
        np.uint32(queens - prefixes.depth), np.uint32((1 << queens) - 1), nodes, solutions,
    )  # fmt: skip
    outcome = nqueens.verify_counts(queens, prefixes.nodes + int(nodes.sum()), int(solutions.sum()))
    assert outcome.passed, outcome.found


def test_counting_kernel_counts_its_launches() -> None:
    counter = np.zeros(1, np.int64)
    for _ in range(5):
        launch.count[1, 1](counter)
    launch.empty[1, 1]()
    assert counter[0] == 5
