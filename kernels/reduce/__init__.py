"""Sum of an array far larger than the caches."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "reduce",
    devices=("cpu", "gpu", "tpu"),
    module="accelbench.kernels.reduce.{device}_{impl}",
    axes={
        "dtype": {
            "cpu": ("float64", "float32", "int32"),
            "gpu": ("float64", "float32", "int32"),
            "tpu": ("float32", "int32"),
        },
    },
    only={"dtype": {"float64": {"device": ("cpu", "gpu")}}},
    metric="bytes",
    bound="memory",
)
def reduce() -> None:
    """Sum of an array far larger than the caches; int32 is summed in int64, as in NumPy."""
