"""wgmma with A in registers, in 16 bits and in tf32, and the proxy fence between writing B and reading it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ptx.machine import Device, PtxError
from tests.ptx.sources import compile_cuda

pytestmark = pytest.mark.needs("g++")

THREADS, M, N = 128, 64, 8
SOURCE = """
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// C (64×8) = A·B. A is in registers: 64×16 bfloat16 or 64×8 tf32. B is in shared memory, by columns, swizzled.
extern "C" __global__ void multiply(const unsigned* a, const unsigned* b, float* c) {
    __shared__ __align__(1024) unsigned char s[1024];
    const int t = threadIdx.x, lane = t % 32, row = t / 32 * 16 + lane / 4;
    if (t < 64) {  // a column has 8 words
        const int at = t / 8 * 128 + t % 8 * 4;
        *(unsigned*)(s + (at ^ (at >> 7 & 7) << 4)) = b[t];
    }
    WRITTEN;
    __syncthreads();
    SYNCHRONISED;
    unsigned r[4];
    for (int i = 0; i < 4; ++i) r[i] = a[(row + i % 2 * 8) * 8 + i / 2 * 4 + lane % 4];
    const unsigned long long place = __cvta_generic_to_shared(s);
    const unsigned long long described = (place >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    float x[4] = {};
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 0, 0; wgmma.fence.sync.aligned;"
                 "wgmma.mma_async.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1" END "; }"
                 : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(described) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    WAIT;
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = x[i];
}
"""
WAIT = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")'
INSTRUCTIONS = {"bfloat16": ('"m64n8k16.f32.bf16.bf16"', '", 0"'), "tf32": ('"m64n8k8.f32.tf32.tf32"', '""')}


def multiply(dtype: str, written: str, synchronised: str, wait: str = WAIT, seed: int = 1) -> tuple[Any, Any]:
    """Return C, and the product of the matrices of small integers."""
    shape, end = INSTRUCTIONS[dtype]
    depth, kind = (16, ml_dtypes.bfloat16) if dtype == "bfloat16" else (8, np.float32)
    rng, device = np.random.default_rng(seed), Device()
    a, b = (rng.integers(-4, 5, (size, depth)).astype(kind) for size in (M, N))
    words = {"WRITTEN": written, "SYNCHRONISED": synchronised, "WAIT": wait, "SHAPE": shape, "END": end}
    options = tuple(f"-D{name}={text}" for name, text in words.items())
    c = device.empty((M, N), np.float32)
    module = device.load(compile_cuda(SOURCE, options))
    module.launch(1, THREADS, *(device.read_only(x.view(np.uint32)) for x in (a, b)), c, seed=seed)
    return c.array, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("dtype", INSTRUCTIONS)
@pytest.mark.parametrize("fences", [("fence()", ""), ("", "fence()")], ids=["writer", "reader"])
def test_the_product_is_right_with_a_fence_of_the_writers_or_of_the_readers(
    dtype: str, fences: tuple[str, str]
) -> None:
    for seed in range(1, 5):
        found, expected = multiply(dtype, *fences, seed=seed)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("written", ["", "if (t >= 64) fence()"], ids=["none", "of threads that write nothing"])
def test_a_missing_fence_is_found(written: str) -> None:
    with pytest.raises(PtxError) as raised:
        multiply("bfloat16", written, "")
    assert raised.value.kind == "proxy"


def test_a_missing_wait_is_found() -> None:
    with pytest.raises(PtxError) as raised:
        multiply("bfloat16", "fence()", "", wait="")
    assert raised.value.kind == "in-flight"


def test_a_register_of_a_is_not_used_before_the_wait() -> None:
    used = f'asm volatile("mov.b32 %0, %0;" : "+r"(r[1])); {WAIT}; if (r[1] == 77) c[0] = 1'
    with pytest.raises(PtxError) as raised:
        multiply("bfloat16", "fence()", "", wait=used)
    assert raised.value.kind == "in-flight"
