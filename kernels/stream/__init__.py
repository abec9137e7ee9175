"""Memory bandwidth by BabelStream's five operations on arrays far larger than the caches."""

from __future__ import annotations

from profiling.benchmark import Task, benchmark, implemented
from profiling.records.point import Point


@benchmark(
    "stream",
    devices=("cpu", "gpu"),
    module="kernels.stream.{device}_{impl}",
    axes={
        "impl": {"cpu": ("numba",), "gpu": ("vendor", "cupy", "numba")},
        "op": ("copy", "mul", "add", "triad", "dot"),
        "dtype": ("float64", "float32"),
    },
    only={"impl": {"vendor": {"op": ("copy",)}}},
    figure="bytes",
    bound="memory",
    ceiling=True,
)
def stream(point: Point) -> Task:
    """Memory bandwidth by BabelStream's operations: c=a, b=s·c, c=a+b, a=b+s·c, Σa·b."""
    return implemented(point)
