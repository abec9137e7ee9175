"""N-Queens in Numba's CUDA simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.treesearch.nqueens import gpu_prefix, gpu_tuned
from accelbench.kernels.treesearch.nqueens.borders import Tasks, cut
from accelbench.kernels.treesearch.nqueens.counts import totals, verify_search
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.kernels.treesearch.nqueens.published import SOLUTIONS
from accelbench.kernels.treesearch.nqueens.recount import recount_task
from accelbench.profiling.benchmark import Task

POISON = 1 << 30


def search_tasks(tasks: Tasks) -> tuple[Any, Any]:
    """Nodes and solutions below each task."""
    kernel = gpu_tuned.define_search(gpu_tuned.most_to_place(tasks))
    nodes, solutions = (np.full(max(len(tasks), 1), POISON, np.uint32) for _ in range(2))
    counter = np.full(1, 17, np.uint32)
    gpu_tuned.reset[1, 1](counter)
    kernel[2, gpu_tuned.THREADS](
        np.uint32(len(tasks)), gpu_tuned.frames_of(tasks).reshape(-1), tasks.border,
        gpu_tuned.rows_of(tasks).reshape(-1), counter, nodes, solutions,
    )  # fmt: skip
    return nodes[: len(tasks)], solutions[: len(tasks)]


@pytest.mark.parametrize("queens", range(1, 9))
@pytest.mark.parametrize("at_least", [1, 30])
def test_prefix_counts_the_published_solutions_and_nodes(queens: int, at_least: int) -> None:
    prefixes = enumerate_prefixes(queens, at_least)
    nodes, solutions = (np.full(len(prefixes), POISON, np.uint32) for _ in range(2))
    grid = -(-len(prefixes) // gpu_prefix.THREADS)
    gpu_prefix.define_search(queens - prefixes.depth)[grid, gpu_prefix.THREADS](
        prefixes.columns, prefixes.left, prefixes.right, np.uint32((1 << queens) - 1), nodes, solutions
    )
    outcome = verify_search(prefixes, nodes, solutions, np.random.default_rng(queens))
    assert outcome.passed, outcome


@pytest.mark.parametrize("queens", range(1, 10))
def test_tuned_counts_the_published_solutions_and_the_nodes_of_its_tree(queens: int) -> None:
    tasks = cut(queens, 1, gpu_tuned.LOOK_AHEAD)
    outcome = verify_search(tasks, *search_tasks(tasks), np.random.default_rng(queens))
    assert outcome.passed, outcome


@pytest.mark.parametrize("queens", [8, 9])
def test_tuned_counts_the_same_however_deep_the_tree_is_cut(queens: int) -> None:
    shallow, deep = (cut(queens, at_least, gpu_tuned.LOOK_AHEAD) for at_least in (1, 300))
    assert deep.depth > shallow.depth
    assert totals(deep, *search_tasks(deep)) == totals(shallow, *search_tasks(shallow))


def test_a_lane_takes_one_task_after_the_other() -> None:
    tasks = cut(9, 200, gpu_tuned.LOOK_AHEAD)
    assert len(tasks) > gpu_tuned.THREADS
    assert verify_search(tasks, *search_tasks(tasks), np.random.default_rng(1)).passed


def test_a_task_left_out_fails() -> None:
    tasks = cut(8, 1, gpu_tuned.LOOK_AHEAD)
    nodes, solutions = search_tasks(tasks)
    nodes[3] = 0
    assert not verify_search(tasks, nodes, solutions, np.random.default_rng(1)).passed


def test_a_task_that_needs_every_frame_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = cut(16, gpu_tuned.MIN_TASKS, gpu_tuned.LOOK_AHEAD)[[116_294]]  # one of six that do
    frames = set()

    def note(array: Any, place: Any, beyond: int, *frame: Any) -> None:
        frames.add((int(place) + int(beyond)) % (1 << 32) // gpu_tuned.FRAME_BYTES // gpu_tuned.THREADS)
        store(array, place, beyond, *frame)

    store = gpu_tuned.store_frame
    monkeypatch.setattr(gpu_tuned, "store_frame", note)
    nodes, solutions = search_tasks(tasks)
    assert (nodes[0], solutions[0]) == recount_task(tasks, 0)
    assert frames == set(range(gpu_tuned.most_frames(gpu_tuned.most_to_place(tasks))))


@pytest.mark.parametrize(
    ("queens", "at_least", "to_place"),
    [
        (16, gpu_tuned.MIN_TASKS, 10),
        (18, gpu_tuned.MIN_TASKS, 12),
        (20, gpu_tuned.MANY_TASKS, 14),
        (22, gpu_tuned.MANY_TASKS, 17),
    ],
)
def test_the_kernel_is_built_for_the_depth_of_the_tasks(queens: int, at_least: int, to_place: int) -> None:
    tasks = cut(queens, at_least, gpu_tuned.LOOK_AHEAD)
    assert gpu_tuned.most_to_place(tasks) == to_place
    assert gpu_tuned.rows_of(tasks).shape == (len(tasks.borders), gpu_tuned.pitch_of(to_place))
    assert at_least <= len(tasks) < 10_000_000


@pytest.mark.parametrize("queens", [1, 4, 6, 8])
@pytest.mark.parametrize("module", [gpu_prefix, gpu_tuned])
def test_a_prepared_point_is_verified_and_its_figures_are_those_of_the_board(
    prepared: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, module: Any, queens: int
) -> None:
    for name in ("MIN_PREFIXES", "MIN_TASKS"):
        monkeypatch.setattr(module, name, 30, raising=False)
    task = prepared(module.__name__.removeprefix("accelbench.kernels."), queens=queens)
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.metrics is not None
    assert task.metrics(2.0)["rate by solutions"].value == SOLUTIONS[queens] / 2


def test_the_share_of_instruction_issue_is_of_all_schedulers(
    prepared: Callable[..., Task],
) -> None:
    task = prepared("treesearch.nqueens.gpu_tuned", queens=8)
    task.verify()
    assert task.metrics is not None
    found = task.metrics(1e-3)
    slots = 2 * 4 * 1.98e9 * 1e-3
    assert task.work.items is not None
    issued = task.work.items * gpu_tuned.INSTRUCTIONS_PER_NODE[9, 0] / 32
    assert found["share of instruction issue at the highest clock"].value == pytest.approx(issued / slots)


def test_without_a_count_of_instructions_there_is_no_share_but_the_reason(
    prepared: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = prepared("treesearch.nqueens.gpu_tuned", queens=6)
    monkeypatch.setattr(gpu_tuned, "compute_capability", lambda: (6, 1))
    task.verify()
    assert task.metrics is not None
    found = task.metrics(1e-3)
    assert found["instructions per node are not counted at compute capability"].value == 6.1
    assert not any("share" in name for name in found)


def test_the_grid_is_what_the_device_holds_at_once(
    prepared: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_tuned, "MIN_TASKS", 300)
    grids = []

    class Kernel:
        def __getitem__(self, launch: tuple[int, ...]) -> Callable[..., None]:
            grids.append(launch[0])
            return lambda *arguments: None

    monkeypatch.setattr(gpu_tuned, "define_search", lambda to_place: Kernel())
    monkeypatch.setattr(gpu_tuned, "shared_bytes", lambda to_place: 114 << 10)
    prepared("treesearch.nqueens.gpu_tuned", queens=10).run()
    assert grids == [2 * 1], "two multiprocessors, each with room for one such block and what is reserved of it"
