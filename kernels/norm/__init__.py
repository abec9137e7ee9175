"""Root-mean-square norm of the rows of an array far larger than the caches."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "norm",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.norm.{device}_{impl}",
    axes={"width": (1024, 8192)},
    limits={"width": (1, 1 << 20)},
    metric="bytes",
    bound="memory",
    dtype="float32",
    small={"width": (1001,)},
)
def norm() -> None:
    """Root-mean-square norm of rows: y = x·scale / √(mean(x²) + ε); every element is read once and written once."""
