"""UTS on all cores: depth-first search from a stack per thread, work sharing, one node per vector lane.

Bound: integer vector instructions. SHA-1 of 16 nodes takes 738 with AVX-512; SHA-1 of 8 nodes takes 1,550 with AVX2,
which has no rotate instruction. Memory traffic stays in the caches. The nodes on top of the stack are hashed one vector
at a time, independent of their parents, so that all lanes are busy until the stack is almost empty. A node on the stack
consists of its parent's state and its number among the siblings (the input of SHA-1), its depth, and the threshold of
the random number from which on it has children, so a vector comparison finds the nodes with children. Their children
are pushed while the next vector is hashed, which does not depend on them.

Measured on one core of an AMD EPYC (Zen 4) at 3.6 GHz, with two vector instructions per cycle: 96 million nodes/s for
T1L and 102 million for T3, 61 and 65 % of the bound of 157 million; hashing alone reaches 124 million. Vector
comparison and pushing during the next hash gave 1.29× for T1L and 1.11× for T3. Compiled for Zen 3, the same core
reached 49 and 51 million with AVX2 in eight lanes, and 55 and 60 million with SHA-NI (`sha_ni`), which is used on CPUs
without AVX-512: 1.10× and 1.11×, medians of 60 pairs of adjacent runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.threads import compiled, parallel, thread_count
from accelbench.kernels.treesearch.bits import lowest_bit
from accelbench.kernels.treesearch.sharing import (
    GIVEN,
    begin,
    give,
    make_room,
    new_search,
    someone_waits,
    take,
)
from accelbench.kernels.treesearch.uts.sha1 import (
    DEPTH,
    FERTILE_FROM,
    HASHED,
    HASHED_DEPTH,
    LANES,
    NUMBER,
    RANDOM,
    WORDS,
    count_reached,
    hash_nodes,
    store_lanes,
)
from accelbench.kernels.treesearch.uts.trees import (
    MAX_CHILDREN,
    RANDOM_VALUES,
    STATE_WORDS,
    TREES,
    Geometric,
    Tree,
    thresholds_of,
)
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

ROOM = LANES * (MAX_CHILDREN + 1)
"""Columns above the top that one step may write: the children of one vector of nodes, and the unused lanes of the last
store."""
CAPACITY = 16 * ROOM
"""Initial columns of a thread's stack, which grows for deep trees."""


def table_of(tree: Tree) -> tuple[Any, Any]:
    """Return (table, flip): a node at depth h has as many children as table[h] has elements ≤ (random number ^ flip).

    The last row is valid for all greater depths, too. `flip` reverses the order of random numbers for binomial trees,
    whose nodes have children if the number is small. A row is a multiple of a vector, and ends with at least one 2³¹,
    which is above all random numbers.
    """
    if isinstance(tree.law, Geometric):
        rows, flip = thresholds_of(tree.law)[:, :-1], np.uint32(0)
        rows = np.pad(rows, ((0, 1), (0, 0)), constant_values=RANDOM_VALUES)
    else:
        rows, flip = np.full((1, tree.law.m), RANDOM_VALUES - tree.law.below, np.uint32), np.uint32(RANDOM_VALUES - 1)
    columns = LANES * (rows.shape[1] // LANES + 1)
    return np.pad(rows, ((0, 0), (0, columns - rows.shape[1])), constant_values=RANDOM_VALUES), flip


def root_children(tree: Tree, table: Any) -> Any:
    """Return the initial nodes of the search as uint32[WORDS, n]; `table` is from `table_of(tree)`."""
    nodes = np.empty((WORDS, tree.root_children), np.uint32)
    nodes[:STATE_WORDS] = tree.root[:, None]
    nodes[NUMBER] = np.arange(tree.root_children)
    nodes[DEPTH] = 1
    nodes[FERTILE_FROM] = table[min(1, len(table) - 1), 0]
    return nodes


@compiled
def push_children(table: Any, stack: Any, top: int, hashed: Any, first: int, lane: int) -> Any:
    """Write the children of one hashed node to the columns from `top` on, by complete vectors; return their number."""
    last_row = len(table) - 1
    depth = np.int64(hashed[first + HASHED_DEPTH, lane])
    row = min(depth, last_row)
    below = np.uint32(depth + 1)
    fertile_from = table[min(depth + 1, last_row), 0]
    random = hashed[first + RANDOM, lane]
    children = 0
    while True:
        for word in range(STATE_WORDS):
            store_lanes(stack, word, top + children, hashed[first + word, lane], np.uint32(0))
        store_lanes(stack, NUMBER, top + children, np.uint32(children), np.uint32(1))
        store_lanes(stack, DEPTH, top + children, below, np.uint32(0))
        store_lanes(stack, FERTILE_FROM, top + children, fertile_from, np.uint32(0))
        reached = count_reached(table, row, children, random)
        children += reached
        if reached < LANES:
            return children


@compiled
def search(table: Any, flip: Any, pool: Any, control: Any, stack: Any, result: Any) -> None:
    """Do the part of one thread in the search; write nodes, leaves and depth of the deepest node to result[:3]."""
    hashed = np.zeros((2 * HASHED, LANES), np.uint32)  # two vectors of nodes: the previous and the current one
    before, now = 0, HASHED
    fertile = np.uint32(0)  # lanes of the previous vector with children that are not yet on the stack
    nodes = 0
    parents = 0
    deepest = np.uint32(0)
    base = 0
    top = take(pool, control, stack, False)
    while top > 0:
        while top > base or fertile != 0:
            if top - base >= 2 * LANES and someone_waits(control):
                base = give(pool, control, stack, base, top)
            if top + ROOM > stack.shape[1]:
                stack = make_room(stack, base, top, ROOM)
                top -= base
                base = 0
            count = min(LANES, top - base)
            top -= count
            nodes += count
            # The scalar units push the children of the previous vector while the vector units hash this one.
            following = np.uint32(hash_nodes(stack, top, flip, hashed, now) & np.uint32((1 << count) - 1))
            while fertile != 0:
                lane = lowest_bit(fertile)
                fertile = np.uint32(fertile & (fertile - np.uint32(1)))
                deepest = max(deepest, np.uint32(hashed[before + HASHED_DEPTH, lane] + 1))
                top += push_children(table, stack, top, hashed, before, lane)
                parents += 1
            fertile = following
            before, now = now, before
        base = 0
        top = take(pool, control, stack, True)
    result[0] = nodes
    result[1] = nodes - parents
    result[2] = deepest


@parallel
def search_all(table: Any, flip: Any, first: Any, pool: Any, control: Any, stacks: Any, results: Any) -> None:
    """Search the complete tree below its root; thread t writes its counts to results[t, :3]."""
    begin(first, pool, control)
    for thread in prange(len(results)):
        search(table, flip, pool, control, stacks[thread], results[thread])


def prepare(point: Point) -> Task:
    """Return the point's task; the stacks are allocated and the root is hashed here."""
    tree = TREES[point["tree"]]
    table, flip = table_of(tree)
    first = root_children(tree, table)
    threads = thread_count()
    pool, control, stacks, results = new_search(first, threads, CAPACITY)

    def run() -> None:
        search_all(table, flip, first, pool, control, stacks, results)

    def verify() -> Verification:
        results.fill(-1)
        run()
        nodes, leaves = (int(counted) for counted in results[:, :2].sum(axis=0))
        # The root was hashed before: it is a leaf if it has no children, otherwise they are at depth 1.
        childless = int(first.shape[1] == 0)
        return tree.verify(1 + nodes, leaves + childless, max(int(results[:, 2].max()), 1 - childless))

    def metrics(seconds: float) -> dict[str, Metric]:
        return {
            "leaves": Metric(tree.leaves),
            "depth": Metric(tree.depth),
            "threads": Metric(threads),
            "nodes given away": Metric(int(control[GIVEN])),
        }

    return Task(run=run, verify=verify, work=Work(items=tree.nodes - 1, item="nodes"), metrics=metrics)
