"""Products of square matrices: what the vendor's library reaches, and what our own kernel reaches beside it."""

from __future__ import annotations

from importlib import import_module

from profiling.benchmark import Point, Task, benchmark


@benchmark(
    "matmul",
    devices=("cpu", "gpu"),
    axes={
        "impl": ("vendor", "numba"),
        "dtype": {"cpu": ("float32", "float64"), "gpu": ("float32", "float64", "tf32", "float16", "bfloat16")},
        "n": {"cpu": (1024, 2048), "gpu": (4096, 8192)},
    },
    figure="flops",
    ceiling=True,
)
def matmul(point: Point) -> Task:
    """C = A·B for square matrices; 2n³ floating-point operations."""
    task: Task = import_module(f"kernels.matmul.{point.device}_{point['impl']}").prepare(point)
    return task
