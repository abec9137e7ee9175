"""N-Queens in Numba's CUDA simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels.treesearch.nqueens import gpu_prefix, gpu_tuned
from kernels.treesearch.nqueens.borders import Tasks, cut
from kernels.treesearch.nqueens.counts import totals, verify_search
from kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from kernels.treesearch.nqueens.published import SOLUTIONS
from profiling.benchmark import Task

POISON = 1 << 30


def search_tasks(tasks: Tasks) -> tuple[Any, Any]:
    table = gpu_tuned.rows_by_queens_to_place(tasks).reshape(-1)
    nodes, solutions = (np.full(max(len(tasks), 1), POISON, np.uint32) for _ in range(2))
    counter = np.full(1, 17, np.uint32)
    columns = ~(tasks.borders.board & ~tasks.columns)
    gpu_tuned.reset[1, 1](counter)
    gpu_tuned.search[2, gpu_tuned.THREADS](
        np.uint32(len(tasks)), columns, tasks.left, tasks.right, tasks.border, table, counter, nodes, solutions
    )
    return nodes[: len(tasks)], solutions[: len(tasks)]


@pytest.mark.parametrize("queens", range(1, 9))
@pytest.mark.parametrize("at_least", [1, 30])
def test_prefix_counts_the_published_solutions_and_nodes(queens: int, at_least: int) -> None:
    prefixes = enumerate_prefixes(queens, at_least)
    nodes, solutions = (np.full(len(prefixes), POISON, np.uint32) for _ in range(2))
    grid = -(-len(prefixes) // gpu_prefix.THREADS)
    gpu_prefix.search[grid, gpu_prefix.THREADS](
        prefixes.columns, prefixes.left, prefixes.right,
        np.uint32(queens - prefixes.depth), np.uint32((1 << queens) - 1), nodes, solutions,
    )  # fmt: skip
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


def test_more_queens_below_a_task_than_there_are_frames_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = cut(9, 1, gpu_tuned.LOOK_AHEAD)
    monkeypatch.setattr(gpu_tuned, "TO_PLACE", 3)
    with pytest.raises(ValueError, match="frames for 3"):
        gpu_tuned.rows_by_queens_to_place(tasks)


@pytest.mark.parametrize("queens", [18, 20, 22])
def test_the_frames_hold_the_boards_that_are_offered(queens: int) -> None:
    tasks = cut(queens, gpu_tuned.MIN_TASKS, gpu_tuned.LOOK_AHEAD)
    assert gpu_tuned.rows_by_queens_to_place(tasks).shape == (len(tasks.borders), gpu_tuned.SLOTS)
    assert len(tasks) < 1 << 24


@pytest.mark.parametrize("queens", [1, 4, 6, 8])
@pytest.mark.parametrize("module", [gpu_prefix, gpu_tuned])
def test_a_prepared_point_is_verified_and_its_figures_are_those_of_the_board(
    prepared: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, module: Any, queens: int
) -> None:
    for name in ("MIN_PREFIXES", "MIN_TASKS"):
        monkeypatch.setattr(module, name, 30, raising=False)
    task = prepared(module.__name__.removeprefix("kernels."), queens=queens)
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.metrics is not None
    assert task.metrics(2.0)["solutions per second"].value == SOLUTIONS[queens] / 2


def test_the_share_of_instruction_issue_is_of_all_schedulers(
    prepared: Callable[..., Task],
) -> None:
    task = prepared("treesearch.nqueens.gpu_tuned", queens=8)
    task.verify()
    assert task.metrics is not None
    found = task.metrics(1e-3)
    slots = 2 * 4 * 1.98e9 * 1e-3
    assert task.work.items is not None
    issued = task.work.items * gpu_tuned.INSTRUCTIONS_PER_NODE / 32
    assert found["share of instruction issue at the highest clock"].value == pytest.approx(issued / slots)
