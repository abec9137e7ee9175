"""N-Queens: counting all placements by tree search, a classic irregular workload."""

from __future__ import annotations

from accelbench.profiling.benchmark import axis, benchmark


@benchmark(
    "nqueens",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.treesearch.nqueens.{device}_{impl}",
    axes={
        "cores": {"cpu": ("one", "all"), "gpu": ("all",), "tpu": ("all",)},
        "queens": {"cpu": (12, 14), "gpu": (16, 18), "tpu": (16,)},
    },
    metric="items",
    cores=axis("cores"),
    limits={"queens": (1, 22)},
    small={"queens": (10,)},
)
def nqueens() -> None:
    """Count of all placements of N queens by depth-first search; one item is one placed queen (node of the tree).

    `prefix` searches the complete board row by row. `tuned` uses the symmetry of the board and looks ahead, so its tree
    has about a sixth of the nodes. Rates in nodes per second are comparable for the same tree only; the metric "rate by
    solutions" is comparable for all implementations. `cdp` (NVIDIA) searches the tree of `prefix` by
    kernels that other kernels launch, and `impl=jax` by array operations.
    """
