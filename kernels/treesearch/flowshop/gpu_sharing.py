"""Flow shop branch and bound on a GPU: every lane computes the bound of one child at a time.

Bound: integer instructions. A child takes about eleven per machine for its bound, and some 200 more to read its parent
and to push its own children. About one child in ten is a node; the others are pruned. Memory traffic, mostly the words
of parents, stays in the caches. The trees are small for a device with 100,000 lanes, so the time in which the work
spreads over the device matters as much.

On an H100 SXM: 2.6 G nodes/s in instance 3 and 1.9 G nodes/s in instance 14, each in about a millisecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32
from accelbench.kernels.treesearch.device_search import Search, whole_device
from accelbench.kernels.treesearch.flowshop.instances import Instance, find_instance
from accelbench.kernels.treesearch.gpu_pool import Problem, search_code
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

VENDORS = ("nvidia",)

PITCH = 32
"""Words in the row of a machine, and the maximum number of jobs: a set of jobs is a 32-bit word."""
HALF = uint32(16)
LOW = uint32((1 << 16) - 1)
ZERO, ONE = uint32(0), uint32(1)


def tables_of(instance: Instance) -> Any:
    """Return the tables as uint32: a row of `PITCH` words for each machine, then the optimum.

    A word contains the time of a job in its lower half and the tail of the machine in its upper half. Raise ValueError
    for more than `PITCH` jobs, or if a schedule may be longer than 16 bits can represent.
    """
    longest = int(instance.times.sum(axis=1).sum())
    if instance.jobs > PITCH or longest > int(LOW):
        raise ValueError(f"{instance.jobs} jobs that may take {longest}: at most {PITCH} jobs and a time of {LOW}")
    rows = np.zeros((instance.machines, PITCH), np.uint32)
    rows[:, : instance.jobs] = instance.times | instance.tails[:, None] << int(HALF)
    return np.append(rows.reshape(-1), np.uint32(instance.optimum))


def root_of(instance: Instance) -> Any:
    """Return the words of the root: depth 0, all jobs, and for each machine `remain` (upper half) and `front`, 0."""
    remain = instance.times.sum(axis=1).astype(np.uint32) << np.uint32(HALF)
    return np.concatenate([[0, (1 << instance.jobs) - 1], remain]).astype(np.uint32)


@cuda.jit(device=True)
def number(jobs: Any) -> Any:
    """Return the number of children: a child is named by the job that it appends, and the word is the set of jobs."""
    return uint32(cuda.popc(jobs))


@cuda.jit(device=True)
def first(jobs: Any) -> Any:
    return uint32(cuda.ffs(jobs) - 1)


@cuda.jit(device=True)
def others(jobs: Any) -> Any:
    return uint32(jobs & uint32(jobs - ONE))


def define_problem(machines: int) -> Problem:
    """Return the search problem for instances with a number of machines."""

    @cuda.jit(device=True)
    def expand(node: Any, job: Any, tables: Any) -> Any:
        """Append a job to the parent's schedule; return the remaining jobs, or 0 if the bound reaches the optimum."""
        end = path = bound = ZERO
        for machine in range(machines):
            word = node[2 + machine]
            entry = tables[uint32(uint32(machine * PITCH) + job)]
            time = uint32(entry & LOW)
            remain = uint32(word >> HALF)
            start = max(end, uint32(word & LOW))
            end = uint32(start + time)
            path = max(path, uint32(start + remain))
            bound = max(bound, uint32(path + uint32(entry >> HALF)))
            node[2 + machine] = uint32(uint32(uint32(remain - time) << HALF) | end)
        node[0] = uint32(node[0] + ONE)
        node[1] = uint32(node[1] & uint32(~uint32(ONE << job)))
        return node[1] if bound < tables[uint32(machines * PITCH)] else ZERO

    return Problem(words=2 + machines, expand=expand, number=number, first=first, others=others)


def search_of(instance: Instance, **size: int) -> Search:
    """Return the search below the empty schedule; `size` contains arguments of `Search`."""
    problem = define_problem(instance.machines)
    names = range(instance.jobs)
    return Search(problem, tables_of(instance), root_of(instance), names, instance.jobs - 1, **size)


def verify_search(instance: Instance, search: Search) -> Verification:
    """Search once and check the number of nodes, that is of branched children."""
    search.poison()
    search.run()
    synchronize()
    return search.check(instance.verify(search.counts().parents))


def prepare(point: Point) -> Task:
    """Return the point's task, with a stack for every resident block of the device."""
    instance = find_instance(int(point["instance"]))
    search = search_of(instance, **whole_device(2 + instance.machines))

    def metrics(seconds: float) -> dict[str, Metric]:
        found = search.counts()
        return {
            "children bounded": Metric(found.nodes),
            "rate by children": Metric(found.nodes / seconds, "children/s"),
            "shelves shared": Metric(found.shared),
        }

    return Task(
        run=search.run,
        verify=lambda: verify_search(instance, search),
        work=Work(items=instance.nodes, item="nodes"),
        metrics=metrics,
    )


def device_code() -> list[DeviceKernel]:
    """Return the search as `run` launches it, except for the size of the stacks."""
    return [search_code(f"flowshop sharing {m} machines", define_problem(m), unit="child") for m in (5, 10)]
