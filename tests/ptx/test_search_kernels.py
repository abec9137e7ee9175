"""Tree searches executed from their PTX: N-Queens, and the work pool shared by blocks with atomics and fences.

The blocks of the pool communicate without barriers. A missing fence on either side is a data race in every order of
execution.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.lib.gpu.numba_cuda import uint32, uint64, void
from accelbench.kernels.treesearch.flowshop.instances import Instance
from accelbench.kernels.treesearch.nqueens.counts import verify_search
from accelbench.kernels.treesearch.nqueens.recount import recount_task
from accelbench.kernels.treesearch.uts.trees import Binomial, Geometric, Tree
from tests.kernels.test_flowshop import count as count_schedules
from tests.kernels.test_flowshop import makespan
from tests.kernels.test_uts import count as count_nodes
from tests.ptx.kernels import Bench, named
from tests.ptx.machine import Buffer, Counts, PtxError
from tests.ptx.sources import HOPPER, Capability, compile_cuda, module_of, numba_ptx, ptx_of

pytestmark = pytest.mark.needs("g++")

ROW = uint32[::1]
BUSHY = Geometric(3, "fixed", 4)


def search_queens(bench: Bench, queens: int, at_least: int, blocks: int) -> bool:
    """Return whether the tuned search finds the published numbers of solutions and nodes."""
    module = module_of("nqueens tuned")
    tasks = module.cut(queens, at_least, module.LOOK_AHEAD)
    return verify_search(tasks, *search_tasks(bench, tasks, blocks), np.random.default_rng(1)).passed


def search_tasks(bench: Bench, tasks: Any, blocks: int) -> tuple[Any, Any]:
    """Return the tuned search's numbers of nodes and solutions below each task."""
    module = module_of("nqueens tuned")
    search = module.define_search(module.most_to_place(tasks))
    text = numba_ptx(search, module.SIGNATURE, bench.capability)
    inputs = module.frames_of(tasks).reshape(-1), tasks.border, module.rows_of(tasks).reshape(-1)
    given = [bench.given(array if array.size else np.zeros(1, np.uint32)).as_numba() for array in inputs]
    counter = bench.changed(np.full(1, 77, np.uint32))
    bench.run("nqueens reset", 1, 1, counter)
    nodes, solutions = (bench.result(max(len(tasks), 1), np.uint32) for _ in range(2))
    results = counter.as_numba(), nodes.as_numba(), solutions.as_numba()
    launch(bench, text, blocks, module.THREADS, np.uint32(len(tasks)), *given, *results)
    return nodes.array[: len(tasks)], solutions.array[: len(tasks)]


def launch(bench: Bench, text: str, grid: int, block: int, *arguments: Any, entry: str | None = None) -> Counts:
    limit = min(bench.limit, 30_000_000)
    return bench.device.load(text).launch(
        grid, block, *arguments, entry=entry, seed=bench.seed, resident=bench.resident, races=bench.races, limit=limit
    )


def search_prefixes(bench: Bench, queens: int) -> bool:
    module = module_of("nqueens prefix")
    prefixes = module.enumerate_prefixes(queens, 30)
    words = uint32[::1]
    signature = void(words, words, words, uint32, words, words)
    text = numba_ptx(module.define_search(queens - prefixes.depth), signature, bench.capability)
    given = [bench.given(array).as_numba() for array in (prefixes.columns, prefixes.left, prefixes.right)]
    nodes, solutions = (bench.result(len(prefixes), np.uint32) for _ in range(2))
    blocks, board = -(-len(prefixes) // module.THREADS), np.uint32((1 << queens) - 1)
    launch(bench, text, blocks, module.THREADS, *given, board, nodes.as_numba(), solutions.as_numba())
    return verify_search(prefixes, nodes.array, solutions.array, np.random.default_rng(1)).passed


def search_by_children(bench: Bench, queens: int, at_least: int, prefixes_at_least: int) -> bool:
    """Return whether kernels that other kernels launch find the published numbers of solutions and nodes."""
    module = module_of("nqueens cdp parent")
    placements, prefixes = (module.enumerate_prefixes(queens, n) for n in (at_least, prefixes_at_least))
    text = compile_cuda(module.SOURCE, module.options(queens, placements.depth, prefixes.depth))
    given = bench.given(module.words_of(placements))
    starts = bench.given(module.starts_below(placements, prefixes.depth))
    written = bench.result((len(prefixes), 3), np.uint32)
    nodes, solutions = (bench.result(len(prefixes), np.uint32) for _ in range(2))
    for part in module.parts(len(placements)):
        first = np.uint64(given.address + 12 * part.start), np.uint64(starts.address + 4 * part.start)
        grid, arguments = -(-len(part) // module.PARENT_THREADS), (np.uint32(len(part)), written, nodes, solutions)
        launch(bench, text, grid, module.PARENT_THREADS, *first, *arguments, entry=module.PARENT)
    return verify_search(prefixes, nodes.array, solutions.array, np.random.default_rng(1)).passed


class DeviceArray:
    """The part of Numba's device arrays that the pool's host side uses."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.shape = buffer.array.shape

    def copy_to_host(self) -> Any:
        return self.buffer.array.copy()

    def copy_to_device(self, array: Any) -> None:
        self.buffer.array[...] = array


class Dispatcher:
    """A kernel that is launched as Numba's: `kernel[grid, block, stream](*arguments)`."""

    def __init__(self, bench: Bench, name: str, text: str) -> None:
        self.bench, self.name, self.text = bench, name, text

    def __getitem__(self, configuration: tuple[int, int, Any]) -> Callable[..., None]:
        return partial(self._launch, *configuration[:2])

    def _launch(self, grid: int, block: int, *arguments: Any) -> None:
        passed = [
            argument.buffer.as_numba() if isinstance(argument, DeviceArray) else argument for argument in arguments
        ]
        counts = launch(self.bench, self.text, grid, block, *passed)
        self.bench.executed.setdefault(self.name, set()).update(counts.lines)


@cache
def search_text(define: Any, arguments: tuple[Any, ...], capability: Capability) -> str:
    """Return the PTX of the pool's search; the arguments are those of `define_search`."""
    return numba_ptx(define(*arguments), void(*[ROW] * 9, uint64[::1], ROW), capability)


@contextmanager
def pool_on(bench: Bench, module: Any, change: Callable[[str], str] = str) -> Iterator[None]:
    """Let the pool's host side run on the interpreter; `change` edits the PTX of the search."""
    host = module.Search.__init__.__globals__
    define = host["define_search"]
    reset_text = ptx_of(named("treesearch reset"), bench.capability)

    def compile_search(*arguments: Any) -> Dispatcher:
        return Dispatcher(bench, "search", change(search_text(define, arguments, bench.capability)))

    stand_ins = {
        "cuda": SimpleNamespace(
            to_device=lambda array: DeviceArray(bench.changed(array)),
            device_array=lambda size, dtype: DeviceArray(bench.result(size, dtype)),
        ),
        "numba_stream": lambda stream: stream,
        "define_search": compile_search,
        "reset": Dispatcher(bench, "treesearch reset", reset_text),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in in stand_ins.items():
            patch.setitem(host, name, stand_in)
        patch.setattr(module, "synchronize", lambda: None)
        yield


def counted(law: Geometric | Binomial, seed: int) -> Tree:
    """Return a small tree with its counts, searched with hashlib."""
    tree = Tree("small", law, seed, 0, 0, 0)
    nodes, leaves, depth = count_nodes(tree)
    return dataclasses.replace(tree, nodes=nodes, leaves=leaves, depth=depth)


def search_tree(
    bench: Bench,
    seed: int,
    change: Callable[[str], str] = str,
    law: Geometric | Binomial = BUSHY,
    *,
    blocks: int = 6,
    threads: int = 32,
) -> Any:
    """Return the verification of a small unbalanced tree, searched by blocks that share early."""
    module, tree = module_of("uts sharing"), counted(law, seed)
    with pool_on(bench, module, change):
        return module.verify_search(tree, module.search_of(tree, blocks=blocks, slots=1 << 9, threads=threads, keep=1))


def every_schedule() -> Instance:
    """Return an instance whose optimum prunes nothing."""
    instance = Instance(0, 5, 42, optimum=10_000, nodes=5 + 20 + 60 + 120, jobs=5)
    assert shortest(instance) < instance.optimum
    return instance


def pruned(machines: int, jobs: int, seed: int) -> Instance:
    """Return an instance with its optimum and the nodes that are left below it, by plain recursion."""
    instance = Instance(0, machines, seed, 0, 0, jobs)
    instance = dataclasses.replace(instance, optimum=shortest(instance))
    return dataclasses.replace(instance, nodes=count_schedules(instance))


def shortest(instance: Instance) -> int:
    return min(makespan(instance.times, order) for order in permutations(range(instance.jobs)))


def search_schedules(bench: Bench, instance: Instance) -> bool:
    """Return whether three blocks visit as many partial schedules as the instance has nodes."""
    module = module_of("flowshop sharing 5 machines")
    with pool_on(bench, module):
        search = module.search_of(instance, blocks=3, slots=256, threads=32, keep=1)
        return module.verify_search(instance, search).passed


def test_queens_by_the_tuned_search() -> None:
    assert search_queens(Bench(), 8, 10, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queens", "at_least", "blocks"), [(1, 1, 1), (2, 1, 1), (4, 1, 1), (6, 2, 1), (9, 100, 3), (10, 300, 3)]
)
def test_queens_of_further_boards(queens: int, at_least: int, blocks: int) -> None:
    assert search_queens(Bench(seed=3), queens, at_least, blocks)


@pytest.mark.slow
def test_a_task_that_needs_every_frame_has_room() -> None:
    module = module_of("nqueens tuned")
    tasks = module.cut(16, module.MIN_TASKS, module.LOOK_AHEAD)[[116_294]]  # one of six that do
    nodes, solutions = search_tasks(Bench(), tasks, 1)
    assert (nodes[0], solutions[0]) == recount_task(tasks, 0)


@pytest.mark.slow
@pytest.mark.parametrize("queens", [1, 5, 8])
def test_queens_below_prefixes(queens: int) -> None:
    assert search_prefixes(Bench(seed=2), queens)


def test_queens_by_kernels_that_launch_kernels() -> None:
    assert search_by_children(Bench(), 7, 20, 80)


@pytest.mark.slow
@pytest.mark.parametrize(("queens", "at_least", "prefixes"), [(1, 1, 1), (5, 5, 100), (8, 8, 8), (9, 1, 500)])
def test_queens_by_children_of_further_boards(queens: int, at_least: int, prefixes: int) -> None:
    assert search_by_children(Bench(seed=2), queens, at_least, prefixes)


@pytest.mark.slow
def test_queens_by_several_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of("nqueens cdp parent"), "MAX_LAUNCHES", 9)
    assert search_by_children(Bench(seed=3), 8, 40, 300)


@pytest.mark.slow
def test_an_unbalanced_tree_is_shared_by_blocks() -> None:
    assert search_tree(Bench(seed=1), 7).passed
    assert search_tree(Bench(seed=2, resident=2), 8).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "seed"),
    [
        (Geometric(2, "linear", 5), 11),
        (Geometric(1.5, "cyclic", 2), 10),
        (Binomial(20, 0.2, 4), 42),
        (Binomial(0, 0.5, 1), 1),
        (Geometric(4, "fixed", 0), 1),
    ],
    ids=str,
)
def test_trees_of_every_law(law: Geometric | Binomial, seed: int) -> None:
    assert search_tree(Bench(seed=5), seed, law=law).passed


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 1, 7), (3, 5, 42), (5, 6, 5), (10, 5, 1)], ids=str)
def test_partial_schedules_above_their_bound_are_pruned(size: tuple[int, int, int]) -> None:
    instance = pruned(*size)
    assert search_schedules(Bench(seed=4), instance)
    assert not search_schedules(Bench(seed=4), dataclasses.replace(instance, nodes=instance.nodes + 1))


@pytest.mark.slow
def test_without_a_bound_every_partial_schedule_is_visited() -> None:
    assert search_schedules(Bench(seed=4), every_schedule())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_the_pool_needs_each_of_its_fences(number: int) -> None:
    """Without one of them, blocks read what others wrote without synchronisation."""

    def remove_fence(text: str) -> str:
        fences = list(re.finditer(r"membar\.gl;", text))
        assert len(fences) > number
        return text[: fences[number].start()] + text[fences[number].end() :]

    found = []
    for seed in range(6):
        try:
            search_tree(Bench(seed=seed), seed, remove_fence)
        except PtxError as error:
            found.append(error.kind)
    assert set(found) == {"race"}


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), HOPPER, (10, 0), (12, 0)], ids=str)
@pytest.mark.parametrize("seed", range(40, 44))
def test_searches_in_many_orders(seed: int, capability: Capability) -> None:
    bench = Bench(capability, seed, resident=1 + seed % 4)
    assert search_queens(bench, 8, 10, 2)
    assert search_tree(bench, seed).passed
    assert search_schedules(bench, every_schedule())
