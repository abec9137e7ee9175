"""The CPU search counts every node and every solution."""

from __future__ import annotations

import pytest

from kernels.nqueens import cpu_prefix, nqueens
from kernels.nqueens.counts import verify_counts
from kernels.nqueens.published import NODES, SOLUTIONS
from profiling.benchmark import Point, Skip


def point(queens):
    return Point("nqueens", "cpu", {"impl": "prefix", "queens": queens})


@pytest.mark.parametrize("queens", range(1, 13))
def test_both_counts_are_the_published_ones(queens):
    task = nqueens(point(queens))
    task.run()
    verification = task.verify()
    assert verification.passed, verification
    assert verification.found == f"{SOLUTIONS[queens]} solutions, {NODES[queens]} nodes"


@pytest.mark.parametrize("tasks", [1, 3, 100_000])
def test_the_counts_do_not_depend_on_how_the_tree_is_cut(monkeypatch, tasks):
    monkeypatch.setattr(cpu_prefix, "TASKS_PER_THREAD", tasks)
    assert nqueens(point(9)).verify().passed


def test_one_node_or_one_solution_more_or_less_fails():
    right = NODES[8], SOLUTIONS[8]
    assert verify_counts(8, *right).passed
    for nodes, solutions in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        assert not verify_counts(8, right[0] + nodes, right[1] + solutions).passed


def test_a_lost_task_fails(monkeypatch):
    honest = cpu_prefix.search_all

    def loses_the_last(board, columns, left, right, rows, stacks, counter, results):
        honest(board, columns[:-1], left[:-1], right[:-1], rows, stacks, counter, results)

    monkeypatch.setattr(cpu_prefix, "search_all", loses_the_last)
    assert not nqueens(point(10)).verify().passed


def test_a_board_whose_count_is_not_published_is_skipped():
    with pytest.raises(Skip, match="could not be verified"):
        nqueens(point(max(NODES) + 1))


def test_the_figures_beside_the_rate_are_those_of_the_whole_board():
    metrics = nqueens(point(10)).metrics(2.0)
    assert metrics["solutions"].value == 724
    assert metrics["solutions per second"].value == 362
    assert metrics["nodes"].value == NODES[10]
