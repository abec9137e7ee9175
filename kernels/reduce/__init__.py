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
    figure="bytes",
    bound="memory",
)
def reduce() -> None:
    """The sum of an array far larger than the caches; integers of 32 bits are added up in 64, as NumPy does."""
