"""Branch and bound on the permutation flow shop: a tree that a bound prunes, on Taillard's instances."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "flowshop",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.treesearch.flowshop.{device}_{impl}",
    axes={"instance": (3, 14)},
    choices={"instance": (2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19)},
    figure="items",
    time_limit_s=600,  # the largest takes minutes on a few cores
    small={"instance": (7,)},
)
def flowshop() -> None:
    """Prove a flow shop's optimum by branch and bound; one item is one partial schedule that is branched from."""
