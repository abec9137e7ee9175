"""The check of every N-Queens implementation: both counts of the whole tree against the published ones, exactly."""

from __future__ import annotations

from kernels.nqueens.published import NODES, SOLUTIONS
from profiling.benchmark import Skip, Verification


def require_published(queens: int) -> None:
    """Skip a board whose node count is not published: its search could not be verified."""
    if queens not in NODES:
        raise Skip(f"node counts are published up to {max(NODES)} queens, so {queens} could not be verified")


def verify_counts(queens: int, nodes: int, solutions: int) -> Verification:
    """Passes only if nodes and solutions are both the published numbers."""
    expected = f"{SOLUTIONS[queens]} solutions, {NODES[queens]} nodes"
    found = f"{solutions} solutions, {nodes} nodes"
    return Verification(
        passed=found == expected,
        method="published counts of solutions and nodes",
        expected=expected,
        found=found,
    )
