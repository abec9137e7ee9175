"""UTS on a GPU: every lane hashes one node at a time, and idle blocks take nodes from others.

Bound: integer instructions. SHA-1 of a node takes HASH_INSTRUCTIONS, nearly all of them on a pipe with 16 lanes per
clock and scheduler at compute capability 8.0 and 9.0. So hashing can use half of the issue rate: 3.0e10 nodes per
second on 132 multiprocessors at 1.98 GHz. Popping a node, computing its number of children and pushing them takes
150–250 more instructions, depending on the maximum number of children in a warp. Memory traffic, some 30 bytes per
node, stays in the caches. A deep narrow tree is bound by latency instead: T3L has 17,844 levels, and a round takes at
least the time of one hash.

On an H100 SXM: 15.0 G nodes/s in T1L, 26 % of the issue rate, and 2.4 G nodes/s in T3L, which has few nodes per level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32, uint64
from accelbench.kernels.treesearch.device_search import Search, whole_device
from accelbench.kernels.treesearch.gpu_pool import Problem, search_code
from accelbench.kernels.treesearch.uts.device_sha1 import HASH_INSTRUCTIONS, hash_child
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
from accelbench.profiling.machine.nvidia.cuda import attribute, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

WARP = 32
ISSUED_PER_CLOCK = 4
"""Maximum warp instructions that a multiprocessor issues per clock: one per scheduler."""
PITCH = 128
"""Words of a row of thresholds: a power of two above the maximum number of children, for bisection."""
LAW_WORDS = 2
"""Words before the rows: the index of the last row, and `flip`."""
RANDOM = uint32(RANDOM_VALUES - 1)
ONE = uint32(1)


def tables_of(tree: Tree) -> Any:
    """Return the tables as uint32: the index of the last row, `flip`, and a row of `PITCH` thresholds for each depth.

    A node has as many children as its row has thresholds ≤ (random number ^ flip). The last row is valid for all
    greater depths, too. Rows ascend and end with 2³¹, which is never reached. `flip` reverses the order of random
    numbers for binomial trees, whose nodes have children if their random number is small.
    """
    if isinstance(tree.law, Geometric):
        rows = np.full((tree.law.levels + 1, PITCH), RANDOM_VALUES, np.uint32)
        rows[:-1, : MAX_CHILDREN + 1] = thresholds_of(tree.law)
        flip = 0
    else:
        rows = np.full((1, PITCH), RANDOM_VALUES, np.uint32)
        rows[0, : tree.law.m] = RANDOM_VALUES - tree.law.below
        flip = RANDOM_VALUES - 1
    return np.concatenate([np.array([len(rows) - 1, flip], np.uint32), rows.reshape(-1)])


@cuda.jit(device=True)
def expand(node: Any, name: Any, tables: Any) -> Any:
    """Hash the child `name` and return its number of children."""
    depth = uint32(node[0] + ONE)
    a, b, c, d, e = hash_child(node[1], node[2], node[3], node[4], node[5], name)
    node[0], node[1], node[2], node[3], node[4], node[5] = depth, a, b, c, d, e
    random = uint32(uint32(e & RANDOM) ^ tables[1])
    row = uint64(uint32(uint32(LAW_WORDS) + uint32(min(depth, tables[0]) * uint32(PITCH))))
    above = row
    if tables[row] <= random:
        step = uint64(PITCH // 2)
        while step != uint64(0):
            if tables[above + uint64(step - uint64(1))] <= random:
                above = uint64(above + step)
            step = uint64(step >> uint64(1))
    return uint32(above - row)


@cuda.jit(device=True)
def number(children: Any) -> Any:
    """Return the number of children: they are named 0, 1, …, and the word is the number of remaining ones."""
    return children


@cuda.jit(device=True)
def last(children: Any) -> Any:
    """Return the name of the last child, which equals the word of the others."""
    return uint32(children - ONE)


PROBLEM = Problem(words=1 + STATE_WORDS, expand=expand, number=number, first=last, others=last)


def search_of(tree: Tree, **size: int) -> Search:
    """Return the search below the root of a tree; `size` contains arguments of `Search`."""
    root = np.concatenate([[0], tree.root]).astype(np.uint32)
    most = MAX_CHILDREN if isinstance(tree.law, Geometric) else tree.law.m
    return Search(PROBLEM, tables_of(tree), root, range(tree.root_children), most, **size)


def verify_search(tree: Tree, search: Search) -> Verification:
    """Search once and check the counts against the published ones; the root was counted before."""
    search.poison()
    search.run()
    synchronize()
    found = search.counts()
    leaves = found.nodes - found.parents + (tree.root_children == 0)
    return search.check(tree.verify(found.nodes + 1, leaves, found.depth))


def prepare(point: Point) -> Task:
    """Return the point's task, with a stack for every resident block of the device."""
    tree = TREES[point["tree"]]
    search = search_of(tree, **whole_device(PROBLEM.words))
    multiprocessors = attribute("MultiProcessorCount")

    def metrics(seconds: float) -> dict[str, Metric]:
        found = search.counts()
        issued = found.nodes * HASH_INSTRUCTIONS / WARP
        at_most = multiprocessors * ISSUED_PER_CLOCK * attribute("ClockRate") * 1e3 * seconds
        return {
            "leaves": Metric(tree.leaves),
            "depth": Metric(found.depth),
            "shelves shared": Metric(found.shared),
            "instructions per hash": Metric(HASH_INSTRUCTIONS),
            "share of instruction issue at the highest clock": Metric(issued / at_most),
        }

    return Task(
        run=search.run,
        verify=lambda: verify_search(tree, search),
        work=Work(items=tree.nodes, item="nodes"),
        metrics=metrics,
    )


def device_code() -> list[DeviceKernel]:
    """Return the search as `run` launches it, except for the size of the stacks."""
    return [search_code("uts sharing", PROBLEM, unit="node")]
