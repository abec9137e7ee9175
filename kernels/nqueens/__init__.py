"""N-Queens: counting every placement by tree search, the classic irregular workload."""

from __future__ import annotations

from importlib import import_module

from profiling.benchmark import Point, Task, benchmark


@benchmark(
    "nqueens",
    devices=("cpu", "gpu"),
    axes={"impl": ("prefix",), "queens": {"cpu": (12, 14), "gpu": (16, 17)}},
    figure="items",
    limits={"queens": (1, 22)},
)
def nqueens(point: Point) -> Task:
    """Count all placements of N queens by depth-first search without symmetry; one item is one queen placed."""
    task: Task = import_module(f"kernels.nqueens.{point.device}_{point['impl']}").prepare(point)
    return task
