"""Branch and bound on the flow shop by a GPU, in Numba's CUDA simulator, on instances of a few jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.lib.gpu.numba_cuda import cuda
from accelbench.kernels.treesearch import device_search
from accelbench.kernels.treesearch.flowshop import gpu_sharing, instances
from accelbench.kernels.treesearch.flowshop.gpu_sharing import (
    define_problem,
    root_of,
    search_of,
    tables_of,
    verify_search,
)
from accelbench.kernels.treesearch.flowshop.instances import Instance
from accelbench.profiling.benchmark import Task

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")

Prepare = Callable[..., Task]


def makespan(times: Any, order: tuple[int, ...]) -> list[int]:
    """Return when each machine has finished these jobs in this order."""
    front = [0] * len(times)
    for job in order:
        end = 0
        for machine, row in enumerate(times):
            end = max(end, front[machine]) + int(row[job])
            front[machine] = end
    return front


def lower_bound(instance: Instance, order: tuple[int, ...]) -> int:
    """The bound of a partial schedule, written as its definition in `instances.py`."""
    left = [job for job in range(instance.jobs) if job not in order]
    path, bounds = 0, []
    for machine, front in enumerate(makespan(instance.times, order)):
        path = max(path, front + sum(int(instance.times[machine, job]) for job in left))
        bounds.append(path + int(instance.tails[machine]))
    return max(bounds)


def count_nodes(instance: Instance, order: tuple[int, ...] = ()) -> int:
    """Partial schedules below this one that are branched from."""
    children = [(*order, job) for job in range(instance.jobs) if job not in order]
    alive = [child for child in children if lower_bound(instance, child) < instance.optimum]
    return len(alive) + sum(count_nodes(instance, child) for child in alive)


def small(machines: int, jobs: int, seed: int) -> Instance:
    """An instance with its optimum, by trying all orders, and its number of nodes."""
    instance = Instance(0, machines, seed, 0, 0, jobs)
    optimum = min(max(makespan(instance.times, order)) for order in permutations(range(jobs)))
    instance = dataclasses.replace(instance, optimum=optimum)
    return dataclasses.replace(instance, nodes=count_nodes(instance))


@cuda.jit
def expand_one(node: Any, job: Any, tables: Any, jobs_left: Any) -> None:
    jobs_left[0] = FOUR_MACHINES.expand(node, job, tables)


FOUR_MACHINES = define_problem(4)


@pytest.mark.parametrize("order", [(2,), (4, 0), (1, 3, 0), (5, 4, 3, 2, 1)], ids=str)
def test_a_child_lives_if_its_bound_is_below_the_optimum(order: tuple[int, ...]) -> None:
    instance = Instance(0, 4, 12345, 0, 0, 6)
    bound = lower_bound(instance, order)
    for optimum in (bound, bound + 1):
        tables = tables_of(dataclasses.replace(instance, optimum=optimum))
        node, jobs_left = root_of(instance), np.zeros(1, np.uint32)
        for job in order:
            expand_one[1, 1](node, np.uint32(job), tables, jobs_left)
        assert node[0] == len(order)
        assert (node[2:] & 0xFFFF).tolist() == makespan(instance.times, order)
        mask = sum(1 << job for job in range(6) if job not in order)
        assert node[1] == mask
        assert jobs_left[0] == (mask if bound < optimum else 0)


@pytest.mark.parametrize("size", [(1, 1, 7), (3, 5, 42), (5, 5, 873654221), (5, 6, 5), (10, 5, 1)], ids=str)
@pytest.mark.parametrize(("blocks", "keep"), [(1, 1000), (2, 1)])
def test_the_nodes_of_a_small_instance_are_counted(size: tuple[int, int, int], blocks: int, keep: int) -> None:
    instance = small(*size)
    search = search_of(instance, blocks=blocks, slots=256, threads=16, keep=keep)
    search.run()
    assert search.counts().parents == instance.nodes


def test_without_a_bound_every_partial_schedule_is_a_node() -> None:
    instance = Instance(0, 3, 42, optimum=10_000, nodes=5 + 20 + 60 + 120, jobs=5)
    search = search_of(instance, blocks=2, slots=256, threads=16, keep=4)
    search.run()
    assert search.counts().parents == instance.nodes
    assert search.counts().nodes == instance.nodes + 120
    assert search.counts().depth == 5


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, prepared: Prepare) -> Callable[[Instance], Task]:
    """Prepares the task of any instance, on a device that holds two blocks."""
    monkeypatch.setattr(gpu_sharing, "synchronize", lambda: None)
    monkeypatch.setattr(device_search, "BLOCKS_PER_MULTIPROCESSOR", 1)
    monkeypatch.setattr(device_search, "MOST_SLOTS", 1 << 11)

    def prepare(instance: Instance) -> Task:
        monkeypatch.setattr(gpu_sharing, "find_instance", lambda number: instance)
        return prepared("treesearch.flowshop.gpu_sharing", instance=3)

    return prepare


def test_the_task_verifies_what_it_ran(simulated: Callable[[Instance], Task]) -> None:
    instance = small(5, 5, 873654221)
    task = simulated(instance)
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.work.items == instance.nodes
    assert task.metrics is not None
    assert task.metrics(1e-3)["children bounded"].value >= 5


def test_a_wrong_number_of_nodes_fails(simulated: Callable[[Instance], Task]) -> None:
    instance = small(5, 5, 873654221)
    assert not simulated(dataclasses.replace(instance, nodes=instance.nodes + 1)).verify().passed


def test_a_search_that_did_not_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_sharing, "synchronize", lambda: None)
    instance = small(3, 5, 42)
    search = search_of(instance, blocks=1, slots=256, threads=16)
    assert verify_search(instance, search).passed
    monkeypatch.setattr(search, "run", lambda: None)
    assert not verify_search(instance, search).passed


def test_what_does_not_fit_the_words_is_refused() -> None:
    with pytest.raises(ValueError, match="33 jobs"):
        tables_of(Instance(0, 2, 1, 1, 0, jobs=33))
    with pytest.raises(ValueError, match="may take"):
        tables_of(Instance(0, 60, 1, 1, 0, jobs=32))


@pytest.mark.parametrize("number", sorted(instances.NODES))
def test_every_instance_fits(number: int) -> None:
    instance = instances.find_instance(number)
    tables = tables_of(instance)
    assert (tables[:-1].reshape(instance.machines, -1)[:, :20] & 0xFFFF).tolist() == instance.times.tolist()
    slots = device_search.slots_for(8 * 132)
    assert instance.jobs**2 <= slots // 2
