"""The arithmetic ceiling: how many floating-point operations per second this CPU can do at most."""

from __future__ import annotations

from importlib import import_module

from profiling.benchmark import Point, Task, benchmark


@benchmark(
    "peak-arith",
    devices=("cpu",),
    axes={"dtype": ("float32", "float64"), "cores": ("one", "all")},
    figure="flops",
    ceiling=True,
)
def peak_arith(point: Point) -> Task:
    """The rate of independent fused multiply-adds in registers: the ceiling of all arithmetic here."""
    task: Task = import_module(f"kernels.peak_arith.{point.device}_fma").prepare(point)
    return task
