"""Exact check of N-Queens: the number of solutions, and the number of nodes of the tree.

The number of solutions is published for all boards up to N = 22. The number of nodes depends on the tree, and is known
for the boards of two tables (`published.py`). For larger boards, random tasks are counted again by a plain search
(`recount.py`), and the nodes and solutions of each must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.treesearch.nqueens.borders import Tasks
from accelbench.kernels.treesearch.nqueens.prefixes import Prefixes
from accelbench.kernels.treesearch.nqueens.published import NODES, NODES_INSIDE_BORDERS, SOLUTIONS
from accelbench.kernels.treesearch.nqueens.recount import recount_prefix, recount_task
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

RECOUNTED_NODES = 20_000_000
"""Minimum nodes of the recounted random tasks: about a second."""


def known_nodes(cut: Prefixes | Tasks) -> int | None:
    """Return the number of nodes of the complete tree of these tasks; None for a board that is not in the tables."""
    if isinstance(cut, Prefixes):
        return NODES.get(cut.queens)
    return NODES_INSIDE_BORDERS[cut.look_ahead].get(cut.queens)


def work_below(cut: Prefixes | Tasks) -> Work:
    """Return the work of one execution: the nodes below the tasks. Nodes above them were counted before."""
    nodes = known_nodes(cut)
    return Work(items=None if nodes is None else nodes - cut.nodes, item="nodes")


def totals(cut: Prefixes | Tasks, nodes: Any, solutions: Any) -> tuple[int, int]:
    """Return (nodes, solutions) of the complete tree from those below each task; solutions include symmetric ones."""
    nodes, solutions = nodes.astype(np.uint64), solutions.astype(np.uint64)
    found = np.sum(solutions * cut.weight.astype(np.uint64))
    return cut.nodes + int(np.sum(nodes)), cut.solutions + int(found)


def verify_search(cut: Prefixes | Tasks, nodes: Any, solutions: Any, rng: np.random.Generator) -> Verification:
    """Check the nodes and solutions that a search found below each task, given as arrays in the order of the tasks."""
    if not len(cut) == len(nodes) == len(solutions):
        raise ValueError(f"{len(cut)} tasks, but nodes for {len(nodes)} and solutions for {len(solutions)}")
    expected_nodes = known_nodes(cut)
    if expected_nodes is None:
        return _verify_sample(cut, nodes, solutions, rng)
    found_nodes, found_solutions = totals(cut, nodes, solutions)
    expected = f"{SOLUTIONS[cut.queens]} solutions, {expected_nodes} nodes"
    found = f"{found_solutions} solutions, {found_nodes} nodes"
    return Verification(
        passed=found == expected,
        method="published number of solutions, known number of nodes of this tree",
        expected=expected,
        found=found,
    )


def _verify_sample(cut: Prefixes | Tasks, nodes: Any, solutions: Any, rng: np.random.Generator) -> Verification:
    recount: Callable[[int], tuple[int, int]] = (
        (lambda task: recount_prefix(cut, task))
        if isinstance(cut, Prefixes)
        else (lambda task: recount_task(cut, task))
    )
    recounted = tasks = wrong = 0
    for task in rng.permutation(len(cut)):
        right = recount(int(task))
        wrong += right != (int(nodes[task]), int(solutions[task]))
        tasks += 1
        recounted += right[0]
        if recounted >= RECOUNTED_NODES:
            break
    checked = f"of {tasks} tasks recounted"
    expected = f"{SOLUTIONS[cut.queens]} solutions, {checked} 0 differ"
    found = f"{totals(cut, nodes, solutions)[1]} solutions, {checked} {wrong} differ"
    return Verification(
        passed=found == expected,
        method=f"published number of solutions, and {recounted} nodes of random tasks recounted",
        expected=expected,
        found=found,
    )


def search_metrics(
    cut: Prefixes | Tasks, nodes: Any, solutions: Any, seconds: float, threads: int | None = None
) -> dict[str, Metric]:
    """Return the additional metrics; "rate by solutions" is comparable between searches of different trees."""
    placed, found = totals(cut, nodes, solutions)
    metrics = {
        "solutions": Metric(found),
        "nodes": Metric(placed),
        "rate by solutions": Metric(found / seconds, "solutions/s"),
        "tasks": Metric(len(cut)),
    }
    return metrics if threads is None else metrics | {"threads": Metric(threads)}
