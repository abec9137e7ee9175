"""The sum of an array far larger than the caches."""

from __future__ import annotations

from importlib import import_module

from profiling.benchmark import Point, Task, benchmark


@benchmark(
    "reduce",
    devices=("cpu", "gpu"),
    axes={
        "impl": {"cpu": ("vendor", "numba"), "gpu": ("cupy", "numba")},
        "dtype": ("float64", "float32", "int32"),
    },
    figure="bytes",
)
def reduce(point: Point) -> Task:
    """The sum of an array far larger than the caches; integers of 32 bits are added up in 64, as NumPy does."""
    task: Task = import_module(f"kernels.reduce.{point.device}_{point['impl']}").prepare(point)
    return task
