"""UTS on all cores: depth first from a stack in each thread, work sharing between them, one node per vector lane.

Bound: integer instructions of vectors. With AVX2, which has no rotate instruction, SHA-1 takes 1,550 of them for eight
nodes; memory traffic stays in the caches. The nodes on top of the stack are hashed a vector at a time, whoever their
parents are, so that all lanes are busy until the stack is all but empty. A node is on the stack as its parent's state
and its number among the siblings: what SHA-1 reads.

Measured on two cores of an AMD EPYC 7003 at 3.24 GHz: T1L at 37 million nodes/s on one thread, 56 % of what four vector
instructions per clock would hash, and 4.5 times the C program `tests/baselines/uts.c`; 77 million nodes/s on both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from kernels.threads import compiled, parallel, thread_count
from kernels.treesearch.lowest_bit import lowest_bit
from kernels.treesearch.sharing import GIVEN, begin, give, make_room, new_control, new_pool, someone_waits, take
from kernels.treesearch.uts.sha1 import LANES, hash_children, store_lanes
from kernels.treesearch.uts.trees import (
    MAX_CHILDREN,
    RANDOM_VALUES,
    STATE_WORDS,
    TREES,
    Geometric,
    Tree,
    thresholds_of,
)
from profiling.benchmark import Task
from profiling.records.point import Point
from profiling.records.quality import Metric, Verification
from profiling.records.work import Work

NUMBER, DEPTH, WORDS = STATE_WORDS, STATE_WORDS + 1, STATE_WORDS + 2
"""Rows of a stack: after the parent's state, the child's number and its depth."""
ROOM = LANES * (MAX_CHILDREN + 1)
"""Columns above the top that one step may write: the children of as many nodes as there are lanes, and the unused
lanes of the last store."""
CAPACITY = 16 * ROOM
"""Columns of a thread's stack at first; it grows where a tree is deep."""
PAD = 16
"""Words between the results of two threads: 128 bytes, so that they share no cache line and no pair of lines."""
RANDOM_BITS = np.uint32(RANDOM_VALUES - 1)


def table_of(tree: Tree) -> tuple[Any, Any]:
    """Return (table, flip): at depth h a node has as many children as elements of table[h] are ≤ its random ^ flip.

    Below the last row's depth the last row counts. `flip` turns the order of random numbers around: a binomial node has
    its children if the number is small. Every row ends with 2³¹, which is above all of them.
    """
    if isinstance(tree.law, Geometric):
        childless = np.full((1, MAX_CHILDREN + 1), RANDOM_VALUES, np.uint32)
        return np.concatenate([thresholds_of(tree.law), childless]), np.uint32(0)
    row = [RANDOM_VALUES - tree.law.below] * tree.law.m + [RANDOM_VALUES]
    return np.array([row], np.uint32), RANDOM_BITS


def root_children(tree: Tree) -> Any:
    """Return the nodes from which the search starts: uint32[WORDS, n]."""
    nodes = np.empty((WORDS, tree.root_children), np.uint32)
    nodes[:STATE_WORDS] = tree.root[:, None]
    nodes[NUMBER] = np.arange(tree.root_children)
    nodes[DEPTH] = 1
    return nodes


@compiled
def push_children(stack: Any, top: int, hashed: Any, lane: int, children: int) -> None:
    """Write the children of one hashed node to the columns from `top` on, whole vectors at a time."""
    for first in range(0, children, LANES):
        for word in range(STATE_WORDS):
            store_lanes(stack, word, top + first, hashed[word, lane], np.uint32(0))
        store_lanes(stack, NUMBER, top + first, np.uint32(first), np.uint32(1))
        store_lanes(stack, DEPTH, top + first, np.uint32(hashed[STATE_WORDS, lane] + 1), np.uint32(0))


@compiled
def search(table: Any, flip: Any, pool: Any, control: Any, stack: Any, result: Any) -> None:
    """Do one thread's part of the search: result[:3] = nodes, leaves, depth of the deepest node."""
    hashed = np.empty((STATE_WORDS + 1, LANES), np.uint32)  # the states of a vector of nodes, and their depths
    last_row = np.uint32(len(table) - 1)
    nodes = 0
    parents = 0
    deepest = np.uint32(0)
    base = 0
    top = take(pool, control, stack, False)
    while top > 0:
        while top > base:
            if top - base >= 2 * LANES and someone_waits(control):
                base = give(pool, control, stack, base, top)
            if top + ROOM > stack.shape[1]:
                stack = make_room(stack, base, top, ROOM)
                top -= base
                base = 0
            count = min(LANES, top - base)
            top -= count
            hash_children(stack, top, hashed)
            # The lanes that hold a node with children, one bit each: without a branch, for it could not be foreseen.
            fertile = np.uint32(0)
            for lane in range(LANES):
                depth = stack[DEPTH, top + lane]
                hashed[STATE_WORDS, lane] = depth
                random = np.uint32((hashed[STATE_WORDS - 1, lane] & RANDOM_BITS) ^ flip)
                has_children = np.uint32(random >= table[min(depth, last_row), 0])
                fertile = np.uint32(fertile | (has_children << np.uint32(lane)))
            fertile = np.uint32(fertile & ((1 << count) - 1))
            nodes += count
            while fertile != 0:
                lane = lowest_bit(fertile)
                fertile = np.uint32(fertile & (fertile - np.uint32(1)))
                depth = hashed[STATE_WORDS, lane]
                row = table[min(depth, last_row)]
                random = np.uint32((hashed[STATE_WORDS - 1, lane] & RANDOM_BITS) ^ flip)
                children = 1
                while row[children] <= random:
                    children += 1
                push_children(stack, top, hashed, lane, children)
                top += children
                parents += 1
                deepest = max(deepest, np.uint32(depth + 1))
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
    first = root_children(tree)
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
