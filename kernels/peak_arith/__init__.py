"""The arithmetic ceiling: how many floating-point operations per second a device can do at most."""

from __future__ import annotations

from importlib import import_module

from profiling.benchmark import Point, Task, benchmark


@benchmark(
    "peak-arith",
    devices=("cpu", "gpu"),
    axes={
        "dtype": {"cpu": ("float32", "float64"), "gpu": ("float32", "float64", "float16", "bfloat16")},
        "cores": {"cpu": ("one", "all"), "gpu": ("all",)},
    },
    figure="flops",
    ceiling=True,
)
def peak_arith(point: Point) -> Task:
    """The rate of independent fused multiply-adds in registers: the ceiling of all but matrix instructions."""
    task: Task = import_module(f"kernels.peak_arith.{point.device}_fma").prepare(point)
    return task
