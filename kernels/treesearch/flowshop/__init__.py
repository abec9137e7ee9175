"""Branch and bound on Taillard's instances of the permutation flow shop: a search tree pruned by a lower bound."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "flowshop",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.treesearch.flowshop.{device}_{impl}",
    axes={"instance": (3, 14)},
    choices={"instance": (2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19)},
    metric="items",
    time_limit_s=600,  # the largest instance takes minutes on a few cores
    small={"instance": (7,)},
)
def flowshop() -> None:
    """Proof of the optimum of a flow shop by branch and bound; one item is one branched partial schedule (node)."""
