"""The Triton kernels, executed from their PTX: products bit-exact for small integers, the others by their checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.attention import gpu_triton as attention
from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.lib.formats import FORMATS, from_storage, to_storage
from accelbench.kernels.lib.gpu.device_code import TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import threads_of
from accelbench.kernels.matmul import gpu_triton as matmul
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.norm import gpu_triton as norm
from accelbench.kernels.norm import reference as norm_reference
from accelbench.kernels.softmax_xent import gpu_triton as softmax_xent
from accelbench.kernels.softmax_xent import reference as softmax_reference
from tests.ptx.kernels import Bench
from tests.ptx.machine import Device
from tests.ptx.sources import HOPPER, Capability, find_kernels, ptx_of

pytestmark = pytest.mark.needs("g++", "triton")

AMPERE: Capability = (8, 0)
BOTH = pytest.mark.parametrize("capability", [HOPPER, AMPERE], ids=str)
"""The capabilities with wgmma and with mma.sync."""


def check_product(bench: Bench, dtype: str, tile: matmul.TritonTile, product: Product) -> None:
    """The sizes are multiples of 16 bytes, as `prepare` pads them."""
    rng, unit = np.random.default_rng(bench.seed), matmul.unit(dtype)
    a, b = (
        rng.integers(-4, 5, shape).astype(np.float32)
        for shape in ((product.batch, product.m, product.k), (product.batch, product.k, product.n))
    )
    out = bench.result((product.batch, product.m, product.n), FORMATS[dtype].storage)
    kernel = matmul.kernel_for(dtype, tile, product.k % tile.k == 0)
    sizes = np.int32(product.m), np.int32(product.n // unit), np.int32(product.k // unit)
    given = (bench.given(to_storage(matrix, dtype)) for matrix in (a, b))
    bench.run(kernel, (tile.tiles(product), product.batch), threads_of(kernel), *given, out, *sizes)
    np.testing.assert_array_equal(out.array, to_storage(a @ b, dtype))


def check_norm(bench: Bench, width: int, rows: int) -> None:
    rng, kernel = np.random.default_rng(bench.seed), norm.kernel_for(width)
    x = norm_reference.draw_rows(rng, 0).between(0, rows * width)
    scale = norm_reference.draw_scale(rng, width)
    out = bench.result(rows * width, np.float32)
    bench.run(kernel, rows, threads_of(kernel), bench.given(x), bench.given(scale), out)
    outcome = norm_reference.verify_norm([([x, scale], [out.array])])
    assert outcome.passed, outcome


def check_cross_entropy(bench: Bench, width: int, rows: int) -> None:
    rng, kernel = np.random.default_rng(bench.seed), softmax_xent.kernel_for(width)
    scores = softmax_reference.draw_scores(rng, 0).between(0, rows * width)
    labels = softmax_reference.draw_labels(rng, rows, width)
    losses, gradient = bench.result(rows, np.float32), bench.result(rows * width, np.float32)
    given = bench.given(scores), bench.given(labels)
    bench.run(kernel, rows, threads_of(kernel), *given, losses, gradient, np.float32(1 / rows))
    blocks = [([scores, labels], [losses.array, gradient.array])]
    outcome = softmax_reference.verify_cross_entropy(blocks, rows)
    assert outcome.passed, outcome


def check_attention(bench: Bench, kernel: TritonKernel, dtype: str, sequence: int, heads: int = 1) -> None:
    constants: dict[str, Any] = dict(kernel.constants)
    shape, rng = (heads, sequence, constants["HEAD"]), np.random.default_rng(bench.seed)
    given = [to_storage(rng.standard_normal(shape, np.float32), dtype) for _ in range(3)]
    out = bench.result(shape, FORMATS[dtype].storage)
    scale = np.float32(math.log2(math.e) / math.sqrt(constants["HEAD"]))
    grid = -(-sequence // attention.QUERIES), heads
    arrays = (bench.given(array) for array in given)
    bench.run(kernel, grid, threads_of(kernel), *arrays, out, np.int32(sequence), scale)
    found = (from_storage(array, dtype) for array in (*given, out.array))
    outcome = verify_attention(*found, dtype, constants["CAUSAL"])
    assert outcome.passed, outcome


def test_a_product_by_wgmma() -> None:
    check_product(Bench(), "bfloat16", matmul.HALF[-1], Product(72, 136, 136, batch=2))


@pytest.mark.slow
def test_attention_by_wgmma_with_weights_in_registers() -> None:
    check_attention(Bench(), attention.kernel_for("bfloat16", 64, causal=True), "bfloat16", 200)


@pytest.mark.slow
@pytest.mark.exhaustive
@BOTH
@pytest.mark.parametrize("dtype", matmul.TYPES)
def test_every_product(dtype: str, capability: Capability) -> None:
    for seed, tile in enumerate(matmul.TYPES[dtype].tiles):
        check_product(Bench(capability, seed), dtype, tile, Product(264, 328, 4 * tile.k + 8, batch=2))
        check_product(Bench(capability, seed), dtype, tile, Product(136, 72, 3 * tile.k))
        check_product(Bench(capability, seed, resident=1), dtype, tile, Product(8, 8, 8))


@pytest.mark.slow
@pytest.mark.exhaustive
@BOTH
def test_rows_of_any_width(capability: Capability) -> None:
    for width in (1, 130, 1001, 1024, 16384, 20001):
        check_norm(Bench(capability, width), width, 2)
        check_cross_entropy(Bench(capability, width), width, 2)


@pytest.mark.slow
@pytest.mark.exhaustive
@BOTH
@pytest.mark.parametrize("kernel", attention.device_code(), ids=lambda kernel: kernel.name)
def test_every_attention(kernel: TritonKernel, capability: Capability) -> None:
    dtype = next(word for word in kernel.name.split() if word in attention.TYPES)
    for sequence in (1, 65, 200, 300):
        check_attention(Bench(capability, sequence), kernel, dtype, sequence, heads=2)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", [AMPERE, (8, 9), HOPPER], ids=str)
def test_every_listed_kernel_decodes(capability: Capability) -> None:
    """From 10.0 on, Triton uses pairs of float32 and tcgen05, which are not executed."""
    for kernel in find_kernels("triton"):
        assert Device().load(ptx_of(kernel, capability)).histogram()["ret"] >= 1
