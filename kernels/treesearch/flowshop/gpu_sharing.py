"""Flow shop branch and bound on a whole GPU: every lane bounds a child at a time.

Bound: integer instructions. A child takes about eleven per machine to bound, and some 200 more to find its parent and
to push its own children; about one child in ten is a node, the others end here. Memory traffic, mostly the parents'
words, stays in the caches. The trees are small for a device with a hundred thousand lanes: how fast the work spreads
over it counts as much.

Measured share of the bound: not measured yet on a GPU.
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
"""Words of a machine's row, and the most jobs: those not yet scheduled are the bits of a word."""
HALF = uint32(16)
LOW = uint32((1 << 16) - 1)
ZERO, ONE = uint32(0), uint32(1)


def tables_of(instance: Instance) -> Any:
    """uint32: for each machine a row of `PITCH`, the job's time and above it the machine's tail; then the optimum.

    ValueError if there are more jobs than bits, or if a schedule may last longer than 16 bits can say.
    """
    longest = int(instance.times.sum(axis=1).sum())
    if instance.jobs > PITCH or longest > int(LOW):
        raise ValueError(f"{instance.jobs} jobs that may take {longest}: more than {PITCH} or {LOW}")
    rows = np.zeros((instance.machines, PITCH), np.uint32)
    rows[:, : instance.jobs] = instance.times | instance.tails[:, None] << int(HALF)
    return np.append(rows.reshape(-1), np.uint32(instance.optimum))


def root_of(instance: Instance) -> Any:
    """Depth 0, every job yet to be scheduled, and of each machine what remains to be done, above when it is free: 0."""
    remain = instance.times.sum(axis=1).astype(np.uint32) << np.uint32(HALF)
    return np.concatenate([[0, (1 << instance.jobs) - 1], remain]).astype(np.uint32)


@cuda.jit(device=True)
def number(jobs: Any) -> Any:
    """A child is called after the job that it appends; the word is the set of jobs, one bit each."""
    return uint32(cuda.popc(jobs))


@cuda.jit(device=True)
def first(jobs: Any) -> Any:
    return uint32(cuda.ffs(jobs) - 1)


@cuda.jit(device=True)
def others(jobs: Any) -> Any:
    return uint32(jobs & uint32(jobs - ONE))


def define_problem(machines: int) -> Problem:
    """Return the search for instances with so many machines."""

    @cuda.jit(device=True)
    def expand(node: Any, job: Any, tables: Any) -> Any:
        """Append a job to the parent's schedule; return the jobs left, none if the bound is not below the optimum."""
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
    """Return the search below the empty schedule; `size` as in `Search`."""
    problem = define_problem(instance.machines)
    names = range(instance.jobs)
    return Search(problem, tables_of(instance), root_of(instance), names, instance.jobs - 1, **size)


def verify_search(instance: Instance, search: Search) -> Verification:
    """Search once, and compare the number of nodes: children that were branched from."""
    search.poison()
    search.run()
    synchronize()
    return search.check(instance.verify(search.counts().parents))


def prepare(point: Point) -> Task:
    """Make a stack for every block that the device can run at once."""
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
    """Return the search, as `run` launches it but for the length of the stacks."""
    return [search_code(f"flowshop sharing {m} machines", define_problem(m), unit="child") for m in (5, 10)]
