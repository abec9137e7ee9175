"""UTS on all cores: depth first from a stack in each thread, work sharing between them, one node per vector lane.

Bound: integer instructions of vectors. With AVX-512 SHA-1 takes 738 of them for 16 nodes; with AVX2, which has no
rotate instruction, 1,550 for eight. Memory traffic stays in the caches. The nodes on top of the stack are hashed a
vector at a time, whoever their parents are, so that all lanes are busy until the stack is all but empty. A node is on
the stack as its parent's state and its number among the siblings, which SHA-1 reads, its depth, and the random number
from which on it has children: a comparison of vectors tells which nodes have any. Their children are pushed while the
next vector is hashed, which does not depend on them.

Measured on one core of an AMD EPYC of Zen 4 at 3.6 GHz, which does two such instructions in a cycle: T1L at 96 and T3
at 102 million nodes/s, 61 and 65 % of the 157 million of the bound; hashing alone, without a search, does 124 million.
Telling the parents by vectors and pushing while the next vector is hashed made T1L 1.29 times and T3 1.11 times as
fast. Compiled for Zen 3, the same core did 49 and 51 million with AVX2 in eight lanes, and 55 and 60 million with the
rounds of SHA-NI (`sha_ni`), which CPUs use that have no AVX-512: 1.10 and 1.11 times as many, in the median of 60 pairs
of neighbours in time.
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
    new_control,
    new_pool,
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
"""Columns above the top that one step may write: the children of as many nodes as there are lanes, and the unused
lanes of the last store."""
CAPACITY = 16 * ROOM
"""Columns of a thread's stack at first; it grows where a tree is deep."""
PAD = 16
"""Words between the results of two threads: 128 bytes, so that they share no cache line and no pair of lines."""


def table_of(tree: Tree) -> tuple[Any, Any]:
    """Return (table, flip): at depth h a node has as many children as elements of table[h] are ≤ its random ^ flip.

    Below the last row's depth the last row counts. `flip` turns the order of random numbers around: a binomial node has
    its children if the number is small. Every row is some whole vectors, and ends with at least one 2³¹, which is above
    all random numbers.
    """
    if isinstance(tree.law, Geometric):
        rows, flip = thresholds_of(tree.law)[:, :-1], np.uint32(0)
        rows = np.pad(rows, ((0, 1), (0, 0)), constant_values=RANDOM_VALUES)
    else:
        rows, flip = np.full((1, tree.law.m), RANDOM_VALUES - tree.law.below, np.uint32), np.uint32(RANDOM_VALUES - 1)
    columns = LANES * (rows.shape[1] // LANES + 1)
    return np.pad(rows, ((0, 0), (0, columns - rows.shape[1])), constant_values=RANDOM_VALUES), flip


def root_children(tree: Tree, table: Any) -> Any:
    """Return the nodes from which the search starts, uint32[WORDS, n]; `table` is `table_of(tree)`'s."""
    nodes = np.empty((WORDS, tree.root_children), np.uint32)
    nodes[:STATE_WORDS] = tree.root[:, None]
    nodes[NUMBER] = np.arange(tree.root_children)
    nodes[DEPTH] = 1
    nodes[FERTILE_FROM] = table[min(1, len(table) - 1), 0]
    return nodes


@compiled
def push_children(table: Any, stack: Any, top: int, hashed: Any, first: int, lane: int) -> Any:
    """Write the children of one hashed node to the columns from `top` on, whole vectors at a time; return how many."""
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
    """Do one thread's part of the search: result[:3] = nodes, leaves, depth of the deepest node."""
    hashed = np.zeros((2 * HASHED, LANES), np.uint32)  # two vectors of nodes: the one before, and the one being hashed
    before, now = 0, HASHED
    fertile = np.uint32(0)  # the lanes of the vector before that have children which are not on the stack yet
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
            # The scalar units push the children of the vector before while the vector units still hash this one.
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
    """Search the whole tree below its root; thread t leaves its counts in results[t, :3]."""
    begin(first, pool, control)
    for thread in prange(len(results)):
        search(table, flip, pool, control, stacks[thread], results[thread])


def prepare(point: Point) -> Task:
    """Make the stacks and hash the root."""
    tree = TREES[point["tree"]]
    table, flip = table_of(tree)
    first = root_children(tree, table)
    threads = thread_count()
    pool, control = new_pool(first), new_control()
    stacks = np.zeros((threads, WORDS, CAPACITY), np.uint32)
    results = np.zeros((threads, PAD), np.int64)

    def run() -> None:
        search_all(table, flip, first, pool, control, stacks, results)

    def verify() -> Verification:
        results.fill(-1)
        run()
        nodes, leaves = (int(counted) for counted in results[:, :2].sum(axis=0))
        # The root was hashed beforehand: it is a leaf if it has no children, else they are at depth 1.
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
