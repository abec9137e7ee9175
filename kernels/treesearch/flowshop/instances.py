"""Taillard's permutation flow shop instances of 20 jobs, and the size of the tree that proves their optimum.

The problem: n jobs pass through m machines in the same order; find the order of the jobs with the shortest total time
(makespan). A node of the tree is a partial schedule; a child appends one of the unscheduled jobs. The upper bound is
the known optimum from the start, so a child is a node of the tree if and only if its lower bound is below the optimum,
and the tree does not depend on the order of the search. The search ends without a complete schedule, which proves that
none is better than the optimum. The empty schedule is not counted.

The lower bound is LB1 with tails over all jobs. `front[k]` is the time at which machine k finishes the scheduled jobs,
`remain[k]` the sum of the other jobs' times on k, `tails[k]` the shortest time of any job after machine k. With
t(0) = front[0] + remain[0] and t(k) = max(t(k−1), front[k] + remain[k]), the bound is the maximum over k of
t(k) + tails[k]. For a child, front grows by the time of its job and remain decreases by it, so the parent's remain can
be added to the start time of the job.

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
"""Number of nodes by instance. For 3 and 14 the numbers are published; the others were counted by two independent
programs, the CPU search and a plain one. `tests/kernels/test_flowshop.py` counts the small ones again."""


@dataclass(frozen=True)
class Instance:
    """Instance by Taillard's number: 14 is the instance ta014."""

    number: int
    machines: int
    seed: int
    optimum: int
    nodes: int
    jobs: int = JOBS

    @cached_property
    def times(self) -> Any:
        """Processing times, 1 to 99, as int32[machines, jobs]."""
        return draw_times(self.seed, self.machines, self.jobs)

    @cached_property
    def tails(self) -> Any:
        """Shortest time of any job after each machine, as int32[machines]."""
        after = self.times.sum(axis=0) - np.cumsum(self.times, axis=0)
        return after.min(axis=1).astype(np.int32)

    def verify(self, nodes: int) -> Verification:
        """Check the number of nodes against the known one."""
        return Verification(
            passed=nodes == self.nodes,
            method="known number of nodes",
            expected=f"{self.nodes} nodes",
            found=f"{nodes} nodes",
        )


def draw_times(seed: int, machines: int, jobs: int) -> Any:
    """Return processing times by Taillard's generator, a Lehmer sequence, in the order of machines and then jobs.

    x ← 16807·x mod (2³¹ − 1), and the time is 1 + floor(99·x / (2³¹ − 1)).
    """
    modulus = 2**31 - 1
    times = np.empty(machines * jobs, np.int32)
    for i in range(machines * jobs):
        seed = 16807 * seed % modulus
        times[i] = 1 + 99 * seed // modulus
    return times.reshape(machines, jobs)


def find_instance(number: int) -> Instance:
    """Return the instance by its number; raise KeyError if the size of its tree is unknown."""
    machines = 5 if number <= len(SEEDS[5]) else 10
    place = (number - 1) % len(SEEDS[5])
    return Instance(number, machines, SEEDS[machines][place], OPTIMA[machines][place], NODES[number])
