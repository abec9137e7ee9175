"""The matrix products and attention, executed from their PTX: bit-exact for small integers, within rounding otherwise.

Tensor-core instructions, asynchronous copies, mbarriers and clusters run as the kernels use them.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ptx.kernels import Bench, named
from tests.ptx.machine import tensor_map
from tests.ptx.sources import Capability, module_of

pytestmark = pytest.mark.needs("g++")

HALF = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
AMPERE: Capability = (8, 0)


def integers(rng: np.random.Generator, *shape: int) -> Any:
    """Return whole numbers whose products sum exactly in every order."""
    return rng.integers(-4, 5, shape).astype(np.float64)


def stored(array: Any, dtype: str) -> Any:
    return array.astype(HALF[dtype]).view(np.uint16)


def rounded(array: Any, dtype: str) -> Any:
    return array.astype(np.float32).astype(HALF[dtype])


def add_parts(bench: Bench, dtype: str, workspace: Any, parts: int, elements: int) -> Any:
    """Run the kernel that adds the parts of a split product, and return the product."""
    out = bench.result(elements, np.uint16)
    blocks = module_of(f"matmul parts {dtype}").adding_blocks(elements, 4)
    threads = module_of(f"matmul parts {dtype}").ADD_THREADS
    bench.run(f"matmul parts {dtype}", blocks, threads, workspace, out, np.int64(elements), np.int32(parts))
    return out


def check_mma(bench: Bench, dtype: str, tile: str, parts: int, sizes: tuple[int, int, int], batch: int = 1) -> None:
    """m, n and k are multiples of 8, as `prepare` pads them."""
    rng, (m, n, k) = np.random.default_rng(bench.seed), sizes
    name = " ".join(filter(None, ("matmul mma", dtype, tile, "parts" * (parts > 1))))
    module = module_of(name)
    kind = module.NARROW if tile else module.WIDE
    a, b = integers(rng, batch, m, k), integers(rng, batch, k, n)
    tiles = -(-m // kind.rows) * -(-n // kind.columns) * batch
    slices = -(-k // module.SLICE)
    depth = -(-slices // parts) * module.SLICE
    result = bench.result(parts * batch * m * n, np.float32 if parts > 1 else np.uint16)
    extents = (np.int32(extent) for extent in (m, n, k, depth))
    given = bench.given(stored(a, dtype)), bench.given(stored(b, dtype))
    bench.run(name, tiles * parts, kind.threads, *given, result, *extents)
    out = add_parts(bench, dtype, result, parts, batch * m * n) if parts > 1 else result
    np.testing.assert_array_equal(out.array.view(HALF[dtype]), rounded(a @ b, dtype).ravel())


def check_wgmma(
    bench: Bench, dtype: str, parts: int, sizes: tuple[int, int, int], batch: int = 1, work: int = 2
) -> None:
    """The product by clusters of two blocks; `work` clusters share the tiles."""
    rng, (m, n, k) = np.random.default_rng(bench.seed), sizes
    name = " ".join(filter(None, ("matmul wgmma", dtype, "parts" * (parts > 1))))
    module = module_of(name)
    a, b = integers(rng, batch, m, k), integers(rng, batch, k, n)
    tiles = -(-m // module.CLUSTER_M) * -(-n // module.TILE_N) * batch
    slices = -(-k // module.TILE_K)
    depth = -(-slices // parts) * module.TILE_K
    out = bench.result((batch, m, n), np.uint16)
    workspace = bench.result(parts * batch * m * n, np.float32) if parts > 1 else np.uint64(0)
    arrays = bench.given(stored(a, dtype)), bench.given(stored(b, dtype)), out
    boxes = module.BOX_A, module.BOX_B, module.BOX_C
    maps = [tensor_map(array, (64, rows, 1), swizzle=128) for array, rows in zip(arrays, boxes, strict=True)]
    extents = (np.int32(extent) for extent in (m, n, k, batch, depth))
    blocks = module.CLUSTER * min(tiles * parts, work)
    bench.run(name, blocks, module.THREADS, *maps, workspace, *extents)
    found = add_parts(bench, dtype, workspace, parts, batch * m * n) if parts > 1 else out
    np.testing.assert_array_equal(found.array.ravel().view(HALF[dtype]), rounded(a @ b, dtype).ravel())


def check_numba(
    bench: Bench, dtype: str, kind: str, sizes: tuple[int, int, int], parts: int = 1, batch: int = 1
) -> None:
    rng, (m, n, k) = np.random.default_rng(bench.seed), sizes
    name = f"matmul numba {dtype} {kind}"
    module = module_of(name)
    every = (*module.TILED[dtype], *module.FEW_COLUMNS[dtype], *module.FEW_ROWS[dtype])
    (kernel,) = [kernel for kernel in every if kernel.name == kind]
    a, b = integers(rng, batch, m, k), integers(rng, batch, k, n)
    product = module.Product(m, n, k, batch)
    each = module.slices_each(kernel.slices(product), parts)
    result = bench.result(parts * batch * m * n, dtype)
    given = bench.given(a.astype(dtype).ravel()), bench.given(b.astype(dtype).ravel())
    extents = (np.int32(extent) for extent in (m, n, k, each))
    bench.run(name, (kernel.tiles(product), parts, batch), kernel.threads, *given, result, *extents)
    if parts > 1:
        out, count = bench.result(batch * m * n, dtype), batch * m * n
        blocks = module.adding_blocks(count, np.dtype(dtype).itemsize)
        bench.run(
            f"matmul numba {dtype} parts", blocks, module.ADD_THREADS, result, out, np.int64(count), np.int32(parts)
        )
        result = out
    np.testing.assert_array_equal(result.array, (a @ b).ravel())


def check_attention(bench: Bench, dtype: str, head: int, sequence: int, causal: bool, heads: int = 1) -> None:
    rng, name = np.random.default_rng(bench.seed), f"attention mma {dtype} {head}"
    module = module_of(name)
    q, k, v = (rng.standard_normal((heads, sequence, head)).astype(HALF[dtype]) for _ in range(3))
    out = bench.result((heads, sequence, head), np.uint16)
    blocks = heads * -(-sequence // module.QUERIES)
    scale = np.float32(math.log2(math.e) / math.sqrt(head))
    given = (bench.given(array.view(np.uint16)) for array in (q, k, v))
    bench.run(name, blocks, module.THREADS, *given, out, np.int32(sequence), scale, np.int32(causal))
    wide_q, wide_k, wide_v = (array.astype(np.float64) for array in (q, k, v))
    scores = wide_q @ wide_k.swapaxes(1, 2) / math.sqrt(head)
    if causal:
        scores = np.where(np.tril(np.ones((sequence, sequence), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    error = np.abs(out.array.view(HALF[dtype]).astype(np.float64) - weights @ wide_v) / (weights @ np.abs(wide_v))
    assert error.max() < 3 * float(ml_dtypes.finfo(HALF[dtype]).eps)


def test_the_product_by_mma_with_cp_async() -> None:
    check_mma(Bench(), "float16", "narrow", 1, (264, 72, 40))


def test_the_product_by_wgmma_in_clusters() -> None:
    check_wgmma(Bench(), "bfloat16", 1, (264, 72, 136))


def test_the_tiled_product_in_numba() -> None:
    check_numba(Bench(), "float32", "64x64", (68, 72, 20))


def test_attention_by_mma() -> None:
    check_attention(Bench(), "float16", 64, 129, causal=True)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("tile", ["", "narrow"])
@pytest.mark.parametrize("dtype", HALF)
def test_every_product_by_mma(dtype: str, tile: str, parts: int) -> None:
    check_mma(Bench(seed=3), dtype, tile, parts, (136, 264, 136), batch=2)
    check_mma(Bench(seed=4), dtype, tile, parts, (8, 8, 8 if parts == 1 else 72))


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("dtype", HALF)
def test_every_product_by_wgmma(dtype: str, parts: int) -> None:
    check_wgmma(Bench(seed=5), dtype, parts, (520, 264, 328), work=2)
    check_wgmma(Bench(seed=6, resident=1), dtype, parts, (8, 8, 8 if parts == 1 else 72), batch=2, work=1)


@pytest.mark.slow
def test_a_cluster_walks_tiles_of_one_stage() -> None:
    """The next tile then begins and ends while the one before is stored."""
    check_wgmma(Bench(seed=7), "float16", 1, (264, 520, 40), work=1)


@pytest.mark.slow
def test_many_parts_of_a_long_inner_dimension() -> None:
    check_mma(Bench(seed=8), "float16", "narrow", 10, (16, 24, 640), batch=2)
    check_wgmma(Bench(seed=9), "bfloat16", 10, (16, 24, 640), batch=2)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("tiled", (132, 68, 140)),
        ("tiled", (4, 4, 12)),
        ("columns<=4", (37, 4, 700)),
        ("columns<=8", (5, 8, 1300)),
        ("columns<=16", (70, 12, 300)),
        ("rows<=4", (3, 260, 150)),
        ("rows<=16", (13, 132, 151)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_product_in_numba(dtype: str, kind: str, sizes: tuple[int, int, int], parts: int) -> None:
    m, n, k = sizes
    k += -k % 4  # rows are multiples of 16 bytes
    kinds = (
        [tiled.name for tiled in module_of(f"matmul numba {dtype} parts").TILED[dtype]] if kind == "tiled" else [kind]
    )
    for each in kinds:
        check_numba(Bench(seed=7), dtype, each, (m, n, k), parts, batch=2)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize("dtype", HALF)
def test_every_attention(dtype: str, head: int, causal: bool) -> None:
    check_attention(Bench(seed=8), dtype, head, 200, causal, heads=2)
    for sequence in (1, 65):
        check_attention(Bench(seed=9), dtype, head, sequence, causal)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [21, 22])
@pytest.mark.parametrize("capability", [AMPERE, (8, 9), (10, 0), (12, 0)], ids=str)
@pytest.mark.parametrize("dtype", HALF)
def test_other_capabilities_and_orders(dtype: str, capability: Capability, seed: int) -> None:
    check_mma(Bench(capability, seed), dtype, "", 2, (136, 264, 136))
    check_attention(Bench(capability, seed), dtype, 128, 131, causal=True)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(31, 39))
def test_wgmma_in_many_orders(seed: int) -> None:
    check_wgmma(Bench(seed=seed, resident=1 + seed % 2), "float16", 1, (520, 264, 328), work=1 + seed % 3)


def test_shared_memory_of_a_launch_is_declared() -> None:
    kernel: Any = named("attention mma float16 64")
    assert kernel.shared_bytes <= 227 * 1024
