"""The work pool of the GPU tree searches in Numba's CUDA simulator, on a tree that costs nothing to make.

The simulator runs one block after the other; here all blocks of a grid run at once, so that they share for real.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.cuda.simulator import kernel as simulated_kernel
from numba.cuda.simulator import kernelapi

from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32
from accelbench.kernels.treesearch import device_search
from accelbench.kernels.treesearch.device_search import Search, SearchCounts
from accelbench.kernels.treesearch.flowshop import gpu_sharing as flowshop
from accelbench.kernels.treesearch.gpu_pool import Problem, define_search
from accelbench.kernels.treesearch.uts import gpu_sharing as uts
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.nvidia import cuda as device
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")

WORD = 0xFFFFFFFF
simulated = settings(max_examples=15, deadline=None)


class GridThread(threading.Thread):
    """A CUDA thread, which may run beside those of other blocks."""

    def __init__(self, body: Any, block: Any, block_index: Any, index: int) -> None:
        super().__init__(target=body, daemon=True)
        self.block = block
        self.blockIdx = kernelapi.Dim3(*block_index)
        self.threadIdx = kernelapi.Dim3(index, 0, 0)
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            super().run()
        except BaseException as error:  # noqa: BLE001 - raised again by `run_threads`
            self.error = error
            self.block.barrier.abort()

    def syncthreads(self) -> None:
        self.block.barrier.wait(60)


def run_threads(threads: list[GridThread]) -> None:
    random.shuffle(threads)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [thread.error for thread in threads if thread.error]
    if errors:
        raise errors[0]


class BlocksAtOnce:
    """Stands in for the simulator's manager of one block: the last block of a grid starts them all, in random order."""

    grid: list[GridThread] = []
    at_once = True

    def __init__(self, body: Any, grid_dim: Any, block_dim: Any, debug: bool) -> None:
        self.body, self.blocks, self.threads = body, prod(grid_dim), prod(block_dim)
        self.barrier = threading.Barrier(self.threads)
        self.shared = kernelapi.FakeCUDAShared(0)

    def run(self, block_index: Any, *arguments: Any) -> None:
        def body() -> None:
            self.body(*arguments)

        self.grid.extend(GridThread(body, self, block_index, i) for i in range(self.threads))
        if not self.at_once or len(self.grid) == self.blocks * self.threads:
            threads = self.grid[:]
            self.grid.clear()
            run_threads(threads)


@pytest.fixture(autouse=True)
def blocks_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each block shared memory of its own, and let atomic operations of all kinds exclude each other."""
    lock = threading.Lock()
    for operation in ("add", "sub", "and", "or", "min", "max", "exch"):
        monkeypatch.setattr(kernelapi, f"{operation}lock", lock)
    module = kernelapi.FakeCUDAModule
    monkeypatch.setattr(module, "shared", property(lambda self: threading.current_thread().block.shared))  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "nanosleep", lambda self, duration: time.sleep(float(duration) * 1e-9), raising=False)
    monkeypatch.setattr(simulated_kernel, "BlockManager", BlocksAtOnce)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@cuda.jit(device=True)
def expand(node: Any, name: Any, tables: Any) -> Any:
    """tables: depth of the tree, most children, and how many more of them there are than nodes without any."""
    mixed = uint32(uint32(node[1] ^ uint32(name + uint32(1))) * uint32(0x9E3779B1))
    mixed = uint32(mixed ^ uint32(mixed >> uint32(15)))
    node[0] = uint32(node[0] + uint32(1))
    node[1] = mixed
    if node[0] >= tables[0] or uint32(mixed & uint32(255)) >= tables[2]:
        return uint32(0)
    return uint32(uint32(1) + uint32(uint32(mixed >> uint32(8)) % tables[1]))


@cuda.jit(device=True)
def number(children: Any) -> Any:
    return children


@cuda.jit(device=True)
def last(children: Any) -> Any:
    return uint32(children - uint32(1))


PROBLEM = Problem(words=2, expand=expand, number=number, first=last, others=last)


def plain_search(root: int, names: int, tables: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return (nodes, parents, depth) below the root."""
    depth, most, fertile = tables
    nodes = parents = deepest = 0
    stack = [(root, name, 1) for name in range(names)]
    while stack:
        state, name, level = stack.pop()
        mixed = (state ^ name + 1) * 0x9E3779B1 & WORD
        mixed ^= mixed >> 15
        nodes += 1
        deepest = max(deepest, level)
        if level < depth and mixed & 255 < fertile:
            parents += 1
            stack += [(mixed, child, level + 1) for child in range(1 + (mixed >> 8) % most)]
    return nodes, parents, deepest


def search_toy(
    root: int, names: int, tables: tuple[int, int, int], *, blocks: int, slots: int, threads: int,
    keep: int | None = None,
) -> SearchCounts:  # fmt: skip
    search = Search(
        PROBLEM, np.array(tables, np.uint32), np.array([0, root], np.uint32), range(names), tables[1],
        blocks=blocks, slots=slots, threads=threads, keep=keep,
    )  # fmt: skip
    search.poison()
    search.run()
    return search.counts()


@simulated
@given(
    root=st.integers(0, WORD), names=st.integers(0, 40), depth=st.integers(1, 12), most=st.integers(1, 5),
    fertile=st.integers(0, 120), blocks=st.integers(1, 3), threads=st.sampled_from([1, 8, 16]), keep=st.integers(1, 20),
)  # fmt: skip
def test_every_node_is_counted_once(
    root: int, names: int, depth: int, most: int, fertile: int, blocks: int, threads: int, keep: int
) -> None:
    tables = (depth, most, min(fertile, 256 * 2 // (most + 1)))  # at most one child on the average
    found = search_toy(root, names, tables, blocks=blocks, slots=256, threads=threads, keep=keep)
    assert (found.nodes, found.parents, found.depth) == plain_search(root, names, tables)
    assert found.lost == 0


def test_work_goes_over_the_shelves() -> None:
    tables = (9, 3, 200)
    few = search_toy(7, 4, tables, blocks=2, slots=512, threads=8, keep=400)
    many = search_toy(7, 4, tables, blocks=2, slots=512, threads=8, keep=1)
    assert few.shared == 0
    assert many.shared > 0
    assert (few.nodes, few.parents, few.depth) == (many.nodes, many.parents, many.depth) == plain_search(7, 4, tables)


def test_a_tree_without_children_ends_at_once() -> None:
    assert search_toy(7, 0, (9, 3, 200), blocks=2, slots=64, threads=8) == SearchCounts(0, 0, 0, 0, 0)


@pytest.mark.parametrize("seed", range(2))
def test_rings_wrap_around_as_the_bottom_is_given_away(seed: int) -> None:
    tables = (8, 2, 256)
    found = search_toy(seed, 40, tables, blocks=1, slots=16, threads=4, keep=1)
    assert found.shared > 16  # an entry each time at least
    assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(seed, 40, tables), 0)


def test_a_stack_that_is_too_short_for_all_lanes_suffices_for_one() -> None:
    # One lane may need (5 − 1) · 3 places below the root's children, less than half; 16 lanes may need 16 times that.
    tables = (4, 5, 230)
    found = search_toy(11, 16, tables, blocks=1, slots=32, threads=16, keep=32)
    assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(11, 16, tables), 0)


def test_children_without_room_are_a_wrong_answer_that_says_so() -> None:
    search = Search(
        PROBLEM, np.array([3, 60, 256], np.uint32), np.array([0, 5], np.uint32), range(8), 60,
        blocks=1, slots=16, threads=8, keep=64,
    )  # fmt: skip
    search.run()
    assert search.counts().lost > 0
    outcome = search.check(Verification(passed=True, method="", expected="", found="9 nodes"))
    assert not outcome.passed
    assert outcome.found is not None
    assert "found no room on a stack of 16" in outcome.found


def test_a_search_can_be_run_again() -> None:
    tables = np.array([8, 3, 180], np.uint32)
    search = Search(
        PROBLEM, tables, np.array([0, 9], np.uint32), range(9), 3, blocks=2, slots=256, threads=8, keep=4
    )  # fmt: skip
    search.run()
    once = search.counts()
    search.poison()
    search.run()
    assert replace(search.counts(), shared=once.shared) == once  # which entries are shared is a matter of chance


def test_counts_that_were_not_written_are_seen() -> None:
    search = Search(PROBLEM, np.ones(3, np.uint32), np.zeros(2, np.uint32), range(2), 1, blocks=2, slots=64, threads=8)
    search.poison()
    assert search.counts().nodes == 2 * device_search.POISON


def test_what_cannot_be_counted_is_refused() -> None:
    root, tables = np.zeros(2, np.uint32), np.ones(3, np.uint32)
    with pytest.raises(ValueError, match="up to 9000 children"):
        Search(PROBLEM, tables, root, range(2), 9000, blocks=1, slots=64, threads=8)
    with pytest.raises(ValueError, match="called 4096"):
        Search(PROBLEM, tables, root, range(4097), 3, blocks=1, slots=64, threads=8)
    for slots in (8, 100, 1 << 21):
        with pytest.raises(ValueError, match="not a power of two"):
            define_search(PROBLEM, threads=8, slots=slots)


def test_few_blocks_have_longer_stacks_than_many() -> None:
    assert device_search.slots_for(1) == device_search.MOST_SLOTS
    assert device_search.slots_for(8 * 132) == 1 << 14
    assert device_search.slots_for(10**6) == device_search.LEAST_SLOTS


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("blocks", "threads"), [(2, 4), (5, 4), (40, 1)])
def test_blocks_that_run_at_once_share_every_node_and_count_it_once(seed: int, blocks: int, threads: int) -> None:
    random.seed(seed)
    tables = (9, 3, 190)
    found = search_toy(seed, 6, tables, blocks=blocks, slots=256, threads=threads, keep=1)
    assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(seed, 6, tables), 0)


def test_blocks_that_start_without_work_find_some() -> None:
    tables = np.array([9, 3, 200], np.uint32)
    search = Search(PROBLEM, tables, np.array([0, 7], np.uint32), range(4), 3, blocks=4, slots=256, threads=4, keep=1)
    search.run()
    assert np.count_nonzero(search.nodes_by_block()) > 1  # at the start, all of the work lies on one shelf


def test_blocks_need_not_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlocksAtOnce, "at_once", False)
    tables = (9, 3, 190)
    found = search_toy(1, 6, tables, blocks=3, slots=256, threads=4, keep=1)
    assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(1, 6, tables), 0)
    assert found.shared > 0


@pytest.mark.parametrize(("module", "params"), [(uts, {"tree": "T1"}), (flowshop, {"instance": 3})], ids=str)
def test_a_device_whose_threads_cannot_pause_is_skipped_before_memory_is_allocated(
    monkeypatch: pytest.MonkeyPatch, module: Any, params: dict[str, str | int]
) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("memory was allocated")

    for allocating in ("to_device", "device_array"):
        monkeypatch.setattr(cuda, allocating, refuse)
    monkeypatch.setattr(device, "compute_capability", lambda: (6, 1))
    with pytest.raises(Skip, match=r"nanosleep.* needs compute capability 7\.0, and this device has 6\.1"):
        module.prepare(Point("treesearch", "gpu", params))
