"""UTS, the Unbalanced Tree Search: a tree that cannot be divided into equal parts in advance."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "uts",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.treesearch.uts.{device}_{impl}",
    axes={"tree": {"cpu": ("T1", "T3"), "gpu": ("T1L", "T3L")}},
    choices={"tree": ("T1", "T2", "T3", "T5", "T1L", "T3L", "T1XL")},
    metric="items",
    time_limit_s=600,  # the largest tree takes minutes on a few cores
    small={"tree": ("T1",)},
)
def uts() -> None:
    """Search of an unbalanced tree with a shape determined by SHA-1; one item is one node, hashed from its parent."""
