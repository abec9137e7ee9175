"""The CUDA C++ of stream on the host's stand-in for a device: what each thread reads and writes, and no more."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.gpu.arrays import ACCESS_BYTES
from accelbench.kernels.stream.gpu_cupy import SOURCE, options
from accelbench.kernels.stream.gpu_task import longest_chain, verify_dot, verify_elements
from accelbench.kernels.stream.operations import SCALAR

THREADS = 32
ELEMENTWISE = ("copy", "mul", "add", "triad")
INCLUDED = Path(__file__).with_name("cuda_on_host")

HOST = r"""
#include "machine.h"
#define __align__(bytes) alignas(bytes)
#define __shared__ static  // blocks run one after the other
"""
LAUNCHES = r"""
#define LAUNCH(NAME)                                                                                                  \
    extern "C" void launch_##NAME(unsigned blocks, unsigned seed, const vec* x, const vec* y, double s, vec* out,     \
                                  long long vectors) {                                                                \
        host::launch(blocks, 1, THREADS, 0, seed, [&] { NAME(x, y, real(s), out, vectors); });                        \
    }
LAUNCH(copy)
LAUNCH(mul)
LAUNCH(add)
LAUNCH(triad)
extern "C" void launch_dot(unsigned blocks, unsigned seed, const vec* x, const vec* y, real* sums, real* out,
                           long long vectors) {
    host::launch(blocks, 1, THREADS, 0, seed, [&] { dot_partial(x, y, sums, vectors); });
    host::launch(1, 1, THREADS, 0, seed, [&] { dot_total(sums, blocks, out); });
}
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    loaded = {}
    for dtype in ("float32", "float64"):
        source = tmp_path_factory.mktemp("stream") / f"{dtype}.cpp"
        source.write_text(HOST + SOURCE + LAUNCHES)
        defined = [option for option in options(dtype) if not option.startswith("-DTHREADS")]
        command = ["g++", "-shared", "-fPIC", "-O1", f"-I{INCLUDED}", *defined, f"-DTHREADS={THREADS}"]
        outcome = subprocess.run([*command, "-o", f"{source}.so", source], capture_output=True, text=True)
        assert outcome.returncode == 0, outcome.stderr
        loaded[dtype] = ctypes.CDLL(f"{source}.so")
    return loaded


def aligned(length: int, dtype: str, guard: int = 256) -> tuple[Any, Any]:
    """An array of NaN that starts at a multiple of 16 bytes, and the same with what lies behind it."""
    memory = np.empty(length * np.dtype(dtype).itemsize + guard + ACCESS_BYTES, np.uint8)
    offset = -memory.ctypes.data % ACCESS_BYTES
    whole = memory[offset : offset + length * np.dtype(dtype).itemsize + guard].view(dtype)
    whole.fill(np.nan)
    return whole[:length], whole


def pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def drawn(vectors: int, dtype: str, seed: int, draw: Callable[..., Any]) -> list[Any]:
    """x and y: whole vectors of random numbers."""
    length = vectors * ACCESS_BYTES // np.dtype(dtype).itemsize
    inputs = []
    for _ in range(2):
        array, _whole = aligned(length, dtype)
        array[:] = draw(np.random.default_rng(seed), length)
        inputs.append(array)
        seed += 1
    return inputs


# Less than a block, whole multiples of what two blocks load at once (256 vectors), and everything between.
vector_counts = st.integers(1, 40) | st.sampled_from([64, 128, 255, 256, 257, 512]) | st.integers(1, 700)
seeds = st.integers(0, 2**31)
dtypes = st.sampled_from(["float32", "float64"])


@pytest.mark.needs("g++")
@settings(deadline=None, max_examples=40)
@given(vectors=vector_counts, op=st.sampled_from(ELEMENTWISE), dtype=dtypes, blocks=st.integers(1, 3), seed=seeds)
def test_every_element_is_written_and_none_beyond(
    libraries: dict[str, ctypes.CDLL], vectors: int, op: str, dtype: str, blocks: int, seed: int
) -> None:
    x, y = drawn(vectors, dtype, seed, lambda rng, length: rng.standard_normal(length))
    out, whole = aligned(len(x), dtype)
    launch = getattr(libraries[dtype], f"launch_{op}")
    launch(blocks, seed, pointer(x), pointer(y), ctypes.c_double(SCALAR), pointer(out), ctypes.c_longlong(vectors))
    assert verify_elements(op, dtype, [(x, y, out)]).passed
    assert np.isnan(whole[len(out) :]).all()


@pytest.mark.needs("g++")
@settings(deadline=None, max_examples=30)
@given(vectors=vector_counts, dtype=dtypes, blocks=st.integers(1, 3), seed=seeds)
def test_every_product_is_summed_once(
    libraries: dict[str, ctypes.CDLL], vectors: int, dtype: str, blocks: int, seed: int
) -> None:
    # Of one sign: a product that is left out, or taken twice, cannot hide.
    x, y = drawn(vectors, dtype, seed, lambda rng, length: rng.random(length) + 1)
    sums, out = np.full(blocks, np.nan, dtype), np.full(1, np.nan, dtype)
    arguments = [pointer(array) for array in (x, y, sums, out)]
    libraries[dtype].launch_dot(blocks, seed, *arguments, ctypes.c_longlong(vectors))
    assert verify_dot(dtype, [(x, y)], float(out[0]), longest_chain(len(x), blocks, THREADS)).passed
