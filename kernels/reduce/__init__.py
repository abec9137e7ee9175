"""The sum of an array far larger than the caches."""

from __future__ import annotations

from profiling.benchmark import Task, benchmark, implemented
from profiling.records.point import Point


@benchmark(
    "reduce",
    devices=("cpu", "gpu"),
    module="kernels.reduce.{device}_{impl}",
    axes={
        "impl": {"cpu": ("vendor", "numba"), "gpu": ("cupy", "numba")},
        "dtype": ("float64", "float32", "int32"),
    },
    figure="bytes",
    bound="memory",
)
def reduce(point: Point) -> Task:
    """The sum of an array far larger than the caches; integers of 32 bits are added up in 64, as NumPy does."""
    return implemented(point)
