"""The CUDA C++ of the cache benchmarks, compiled for the host: which places are read, by whom and how often.

The threads run one after another, which is enough where they share nothing but what they read. Only the load itself,
which is PTX, is replaced: by one that counts.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.cache import gpu_bandwidth, gpu_latency
from accelbench.kernels.lib.cpu.pointer_chase import Cycle

HOST = r"""
#define CUDA_ON_HOST
#define __global__
#define __launch_bounds__(threads)
struct uint4 { unsigned x, y, z, w; };
struct { unsigned x; } threadIdx, blockIdx, gridDim;
static unsigned long long clock64() { static unsigned long long now; return now += 100; }
static void __syncthreads() {}
static const char* first_byte;
static unsigned* reads;  // of every 16 bytes
static unsigned* order;  // the lines of the chase's set, as they are read
static uint4 read(const uint4* address) { ++reads[((const char*)address - first_byte) / 16]; return *address; }
static unsigned long long read(unsigned long long address) {
    ++reads[((const char*)address - first_byte) / 16];
    *order++ = ((const char*)address - first_byte) / LINE;
    return *(const unsigned long long*)address;
}
"""
LAUNCHES = r"""
extern "C" void launch_read_all(unsigned blocks, const uint4* data, unsigned vectors, unsigned loads, unsigned* sums,
                                unsigned* counts) {
    first_byte = (const char*)data, gridDim.x = blocks;
    for (unsigned block = 0; block < blocks; ++block)
        for (unsigned thread = 0; thread < THREADS; ++thread) {
            reads = counts + block * vectors, blockIdx.x = block, threadIdx.x = thread;
            read_all(data, vectors, loads, sums);
        }
}
// The first thread last: the others only read.
extern "C" void launch_chase(unsigned long long first, unsigned filling, unsigned steps, unsigned long long* state,
                             unsigned* counts, unsigned* lines) {
    first_byte = (const char*)first, reads = counts, order = lines, gridDim.x = 1, blockIdx.x = 0;
    for (unsigned thread = THREADS; thread-- > 0;) {
        threadIdx.x = thread;
        chase(first, filling, steps, state);
    }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("cache")
    source = folder / "cache.cpp"
    source.write_text(HOST + gpu_bandwidth.SOURCE + gpu_latency.SOURCE + LAUNCHES)
    defined = sorted({option for option in (*gpu_bandwidth.OPTIONS, *gpu_latency.OPTIONS) if option.startswith("-D")})
    command = ["g++", "-shared", "-fPIC", "-O1", *defined, "-o", str(folder / "cache.so"), str(source)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    return ctypes.CDLL(str(folder / "cache.so"))


def pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.needs("g++")
@settings(deadline=None, max_examples=25)
@given(blocks=st.integers(1, 150), steps=st.integers(1, 9), passes=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_every_block_reads_all_of_the_set_in_each_pass(
    library: ctypes.CDLL, blocks: int, steps: int, passes: int, seed: int
) -> None:
    vectors = steps * gpu_bandwidth.THREADS
    words = np.random.default_rng(seed).integers(0, 1 << 32, 4 * vectors, np.uint32)
    sums = np.full((blocks, gpu_bandwidth.THREADS), 7, np.uint32)
    counts = np.zeros((blocks, vectors), np.uint32)
    library.launch_read_all(blocks, pointer(words), vectors, passes * steps, pointer(sums), pointer(counts))
    assert (counts == passes).all()
    expected = gpu_bandwidth.expected_sum(words, passes)
    assert set(sums.sum(axis=1, dtype=np.uint64) % 2**32) == {expected}


def chase(
    library: ctypes.CDLL, cycle: Cycle, pointers: Any, filling: int, steps: int, state: Any
) -> tuple[Any, list[int]]:
    """One execution: how often it reads every 16 bytes, and the lines in the order in which it reads them."""
    counts, order = np.zeros(pointers.nbytes // 16, np.uint32), np.zeros(filling + steps, np.uint32)
    library.launch_chase(ctypes.c_uint64(cycle.first), filling, steps, pointer(state), pointer(counts), pointer(order))
    return counts, order.tolist()


@pytest.mark.needs("g++")
@settings(deadline=None, max_examples=25)
@given(lines=st.integers(1, 3000), steps=st.integers(1, 5000), share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_one_thread_chases_after_the_block_has_filled_the_caches(
    library: ctypes.CDLL, lines: int, steps: int, share: float, seed: int
) -> None:
    pointers = np.zeros(lines * gpu_latency.LINE // 8, np.uint64)
    cycle = Cycle(pointers.ctypes.data, lines, gpu_latency.LINE, np.random.default_rng(seed))
    cycle.draw(pointers)
    state = np.array([cycle.after(0), 0], np.uint64)
    filling = int(share * lines)
    counts = chase(library, cycle, pointers, filling, steps, state)[0]
    assert cycle.verify(steps, int(state[0])).passed
    assert state[1] == 100, "the clock is read before the chase and after it"
    # Each of the first lines once, and then as many steps, evenly around the cycle.
    of_lines = counts[:: gpu_latency.LINE // 16].astype(int)
    assert counts.sum() == of_lines.sum() == filling + steps
    of_lines[:filling] -= 1
    assert of_lines.max() - of_lines.min() <= 1


class Cache:
    """A cache of so many lines, which replaces the one that was read the longest ago."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.lines = capacity, OrderedDict[int, None]()

    def read(self, line: int) -> bool:
        """Whether the line was there."""
        found = line in self.lines
        self.lines[line] = None
        self.lines.move_to_end(line)
        if len(self.lines) > self.capacity:
            self.lines.popitem(last=False)
        return found


L2_LINES, CHASED = 4096, 512


@pytest.mark.needs("g++")
@pytest.mark.parametrize("emptied", [True, False], ids=["isolated", "batch"])
@pytest.mark.parametrize("size", [0.25, 0.5, 0.75, 1, 1.02, 1.25, 2, 2.5, 10])
def test_a_chase_finds_all_of_a_set_that_fits_into_l2_and_nothing_of_a_larger_one(
    library: ctypes.CDLL, size: float, emptied: bool
) -> None:
    # The set is L2 times `size`; an execution chases an eighth of L2, as on a card of 64 MiB.
    lines = int(size * L2_LINES)
    pointers = np.zeros(lines * gpu_latency.LINE // 8, np.uint64)
    cycle = Cycle(pointers.ctypes.data, lines, gpu_latency.LINE, np.random.default_rng(3))
    cycle.draw(pointers)
    state = np.array([cycle.after(0), 0], np.uint64)
    filling = gpu_latency.lines_to_fill(lines, L2_LINES * gpu_latency.LINE)
    l2, chased, found = Cache(L2_LINES), 0, 0
    for _ in range(3 * lines // CHASED):
        if emptied:
            l2.lines.clear()
        hits = [l2.read(line) for line in chase(library, cycle, pointers, filling, CHASED, state)[1]]
        chased += CHASED
        found += sum(hits[filling:])
    assert found == (chased if size <= 1 else 0)


@pytest.mark.needs("g++")
@pytest.mark.parametrize("l1_lines", [1024, 2048])
@pytest.mark.parametrize("size", [1.1, 2, 4, 16])
def test_of_what_the_block_reads_before_a_chase_finds_little_in_l1(
    library: ctypes.CDLL, size: float, l1_lines: int
) -> None:
    lines = int(size * l1_lines)
    pointers = np.zeros(lines * gpu_latency.LINE // 8, np.uint64)
    cycle = Cycle(pointers.ctypes.data, lines, gpu_latency.LINE, np.random.default_rng(4))
    cycle.draw(pointers)
    state = np.array([cycle.after(0), 0], np.uint64)
    l1 = Cache(l1_lines)
    order = chase(library, cycle, pointers, lines, gpu_latency.STEPS, state)[1]
    hits = sum([l1.read(line) for line in order][lines:])
    assert hits <= l1_lines
    assert hits / gpu_latency.STEPS <= 0.032


def test_only_the_loads_are_not_the_sources_own() -> None:
    for source in (gpu_bandwidth.SOURCE, gpu_latency.SOURCE):
        (replaced,) = re.findall(r"#ifndef CUDA_ON_HOST(.*?)#endif", source, re.DOTALL)
        assert "asm" in replaced
        assert "asm" not in source.replace(replaced, "")
