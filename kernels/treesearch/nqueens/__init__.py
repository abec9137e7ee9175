"""N-Queens: counting every placement by tree search, the classic irregular workload."""

from __future__ import annotations

from accelbench.profiling.benchmark import axis, benchmark


@benchmark(
    "nqueens",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.treesearch.nqueens.{device}_{impl}",
    axes={
        "cores": {"cpu": ("one", "all"), "gpu": ("all",)},
        "queens": {"cpu": (12, 14), "gpu": (16, 18)},
    },
    figure="items",
    cores=axis("cores"),
    limits={"queens": (1, 22)},
    small={"queens": (10,)},
)
def nqueens() -> None:
    """Count all placements of N queens by depth-first search; one item is one queen placed.

    `prefix` searches the whole board row by row. `tuned` uses the board's symmetry and looks ahead, so its tree has
    about a sixth of the nodes: the rates of nodes compare searches of the same tree only, and what compares any two is
    the metric "rate by solutions".
    """
