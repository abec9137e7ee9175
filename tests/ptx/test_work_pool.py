"""The work pool of the tree searches, executed from its PTX on a tree that costs nothing to make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32
from accelbench.kernels.treesearch import device_search
from accelbench.kernels.treesearch.device_search import Search, SearchCounts
from accelbench.kernels.treesearch.gpu_pool import Problem
from accelbench.profiling.records.quality import Verification
from tests.ptx.kernels import Bench
from tests.ptx.sources import module_of
from tests.ptx.test_search_kernels import pool_on

pytestmark = [pytest.mark.needs("g++"), pytest.mark.slow]

WORD = 0xFFFFFFFF


@cuda.jit(device=True)
def expand(node: Any, name: Any, tables: Any) -> Any:
    """tables: depth of the tree, most children, and the share of nodes with children in 1/256."""
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
    """Return the numbers of nodes and parents, and the depth."""
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


@pytest.fixture(autouse=True)
def interpreted(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(seed=3)
    with pool_on(bench, module_of("uts sharing")):
        yield bench


def search_of(
    root: int,
    names: int,
    tables: tuple[int, int, int],
    *,
    blocks: int = 2,
    slots: int = 256,
    threads: int = 8,
    keep: int,
) -> Search:
    search = Search(
        PROBLEM, np.array(tables, np.uint32), np.array([0, root], np.uint32), range(names), tables[1],
        blocks=blocks, slots=slots, threads=threads, keep=keep,
    )  # fmt: skip
    search.poison()
    return search


def counts_of(root: int, names: int, tables: tuple[int, int, int], **how: int) -> SearchCounts:
    search = search_of(root, names, tables, keep=how.pop("keep", 4), **how)
    search.run()
    return search.counts()


def test_every_node_is_counted_once_in_any_order(interpreted: Bench) -> None:
    for seed, resident, names, tables, blocks in [
        (1, 1, 6, (9, 3, 190), 3), (2, 4, 40, (12, 5, 80), 2), (3, 3, 1, (1, 1, 0), 1), (4, 8, 6, (9, 3, 190), 40)
    ]:  # fmt: skip
        interpreted.seed, interpreted.resident = seed, resident
        found = counts_of(seed, names, tables, blocks=blocks)
        assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(seed, names, tables), 0)


def test_work_goes_over_the_shelves() -> None:
    tables = (9, 3, 200)
    few, search = counts_of(7, 4, tables, keep=400), search_of(7, 4, tables, blocks=4, keep=1)
    search.run()
    many = search.counts()
    assert few.shared == 0
    assert many.shared > 0
    assert (few.nodes, few.parents, few.depth) == (many.nodes, many.parents, many.depth) == plain_search(7, 4, tables)
    assert np.count_nonzero(search.nodes_by_block()) > 1  # at the start, all of the work lies on one shelf


def test_a_tree_without_children_ends_at_once() -> None:
    assert counts_of(7, 0, (9, 3, 200)) == SearchCounts(0, 0, 0, 0, 0)


def test_rings_wrap_around_as_the_bottom_is_given_away() -> None:
    tables = (8, 2, 256)
    found = counts_of(1, 40, tables, blocks=1, slots=16, threads=4, keep=1)
    assert found.shared > 16  # an entry each time at least
    assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(1, 40, tables), 0)


def test_a_stack_that_is_too_short_for_all_lanes_suffices_for_one() -> None:
    # One lane may need (5 − 1) · 3 places below the root's children, less than half; 16 lanes may need 16 times that.
    tables = (4, 5, 230)
    found = counts_of(11, 16, tables, blocks=1, slots=32, threads=16, keep=32)
    assert (found.nodes, found.parents, found.depth, found.lost) == (*plain_search(11, 16, tables), 0)


def test_children_without_room_are_a_wrong_result_with_its_reason() -> None:
    search = search_of(5, 8, (3, 60, 256), blocks=1, slots=16, keep=64)
    search.run()
    assert search.counts().lost > 0
    outcome = search.check(Verification(passed=True, method="", expected="", found="9 nodes"))
    assert not outcome.passed
    assert outcome.found is not None
    assert "found no room on a stack of 16" in outcome.found


def test_a_search_can_be_run_again_and_poisoned_counts_show() -> None:
    search = search_of(9, 9, (8, 3, 180), keep=4)
    assert search.counts().nodes == 2 * device_search.POISON
    search.run()
    once = search.counts()
    search.poison()
    search.run()
    again = search.counts()
    assert (again.nodes, again.parents, again.depth) == (once.nodes, once.parents, once.depth)
