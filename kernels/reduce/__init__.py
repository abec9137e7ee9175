"""Sum of an array far larger than the caches."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "reduce",
    devices=("cpu", "gpu"),
    module="accelbench.kernels.reduce.{device}_{impl}",
    axes={
        "dtype": ("float64", "float32", "int32"),
    },
    metric="bytes",
    bound="memory",
)
def reduce() -> None:
    """Sum of an array far larger than the caches; int32 is summed in int64, as in NumPy."""
