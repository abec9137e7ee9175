"""Taillard's permutation flow shop instances of 20 jobs, and the size of the tree that proves their optimum.

The problem: n jobs pass m machines in the same order; find the order of the jobs that ends first. A node of the tree is
a partial schedule; a child appends one of the jobs not yet scheduled. The upper bound is the optimum from the start, so
a child is a node of the tree exactly if its lower bound is below the optimum, and the tree does not depend on the order
of the search: no schedule remains in the end, which proves that none is better. The empty schedule is not counted.

The bound (LB1 with tails over all jobs): `front[k]` is when machine k has finished the scheduled jobs, `remain[k]` the
sum of the other jobs' times on k, `tails[k]` the shortest time that any job needs after machine k. With
t(0) = front[0] + remain[0] and t(k) = max(t(k−1), front[k] + remain[k]), the bound is max over k of t(k) + tails[k].
Since remain falls by what front grows, a parent's remain can be added to the time at which the child's job starts.

Sources: E. Taillard, "Benchmarks for basic scheduling problems", European Journal of Operational Research 64, 1993
(generator, time seeds; the optima are from the author's later lists); B. J. Lageweg, J. K. Lenstra and A. H. G. Rinnooy
Kan, "A general bounding scheme for the permutation flow-shop problem", Operations Research 26, 1978 (the bound).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from accelbench.profiling.records.quality import Verification

JOBS = 20
SEEDS = {
    5: (873654221, 379008056, 1866992158, 216771124, 495070989, 402959317, 1369363414, 2021925980, 573109518, 88325120),
    10: (
        587595453, 1401007982, 873136276, 268827376, 1634173168, 691823909, 73807235, 1273398721, 2065119309,
        1672900551,
    ),
}  # fmt: skip
"""Time seeds by the number of machines: instances 1 to 10, and 11 to 20."""
OPTIMA = {
    5: (1278, 1359, 1081, 1293, 1235, 1195, 1234, 1206, 1230, 1108),
    10: (1582, 1659, 1496, 1377, 1419, 1397, 1484, 1538, 1593, 1591),
}
NODES = {
    2: 30,
    3: 2573133,
    4: 1163892,
    7: 271602,
    8: 113458723,
    9: 1720337,
    10: 83247817,
    11: 6705081,
    12: 3913907,
    13: 4052758,
    14: 2573652,
    15: 9527892,
    16: 10716303,
    19: 178,
}
"""Nodes of the tree by the instance's number. 3 and 14 are published; the others were counted by two programs that
share no code, the CPU's search and a plain one, and `tests/kernels/test_flowshop.py` counts the small ones again."""


@dataclass(frozen=True)
class Instance:
    """One instance, by Taillard's number: 14 is what others call ta014."""

    number: int
    machines: int
    seed: int
    optimum: int
    nodes: int
    jobs: int = JOBS

    @cached_property
    def times(self) -> Any:
        """int32[machines, jobs]: the time that a job needs on a machine, 1 to 99."""
        return draw_times(self.seed, self.machines, self.jobs)

    @cached_property
    def tails(self) -> Any:
        """int32[machines]: the shortest time that any job needs after that machine."""
        after = self.times.sum(axis=0) - np.cumsum(self.times, axis=0)
        return after.min(axis=1).astype(np.int32)

    def verify(self, nodes: int) -> Verification:
        """Passes only if it is the known number."""
        return Verification(
            passed=nodes == self.nodes,
            method="known number of nodes",
            expected=f"{self.nodes} nodes",
            found=f"{nodes} nodes",
        )


def draw_times(seed: int, machines: int, jobs: int) -> Any:
    """Taillard's generator: a Lehmer sequence, one number for each job on the first machine, then on the second.

    x ← 16807·x mod (2³¹ − 1), and 1 + floor(99·x / (2³¹ − 1)) is a time.
    """
    modulus = 2**31 - 1
    times = np.empty(machines * jobs, np.int32)
    for i in range(machines * jobs):
        seed = 16807 * seed % modulus
        times[i] = 1 + 99 * seed // modulus
    return times.reshape(machines, jobs)


def find_instance(number: int) -> Instance:
    """Return the instance of that number; KeyError where the size of its tree is not known."""
    machines = 5 if number <= len(SEEDS[5]) else 10
    place = (number - 1) % len(SEEDS[5])
    return Instance(number, machines, SEEDS[machines][place], OPTIMA[machines][place], NODES[number])
