"""Concurrent benchmarks of all visible GPUs: total rate, spread between the GPUs, and outliers."""

from __future__ import annotations

from accelbench.kernels.matmul import DTYPES
from accelbench.profiling.benchmark import Task, axis, benchmark
from accelbench.profiling.records.point import Point

TIME_LIMIT_S = 1200.0
"""Time limit in seconds. The host checks the result of each GPU: eight GPUs take eight times as long as one."""


@benchmark(
    "all-gpus-peak-arith",
    devices=("gpu",),
    vendors=("nvidia",),
    axes={"dtype": ("float32",)},
    choices={"dtype": ("float32", "float64", "float16", "bfloat16")},
    metric="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    time_limit_s=TIME_LIMIT_S,
)
def all_gpus_peak_arith(point: Point) -> Task:
    """Empirical arithmetic peak of all visible GPUs at the same time, and the spread between them."""
    return _together(point, "peak_arith.gpu_fma", cores="all")


@benchmark(
    "all-gpus-matmul",
    devices=("gpu",),
    vendors=("nvidia",),
    axes={"dtype": ("bfloat16",), "n": (8192,)},
    choices={"dtype": DTYPES["gpu"]},
    metric="flops",
    bound="arithmetic",
    dtype=axis("dtype"),
    time_limit_s=TIME_LIMIT_S,
)
def all_gpus_matmul(point: Point) -> Task:
    """C = A·B by the vendor's library on all visible GPUs at the same time (highest power draw), and their spread."""
    return _together(point, "matmul.gpu_vendor", impl="vendor")


@benchmark(
    "all-gpus-stream",
    devices=("gpu",),
    vendors=("nvidia",),
    axes={"dtype": ("float64",)},
    choices={"dtype": ("float64", "float32")},
    metric="bytes",
    bound="memory",
    time_limit_s=TIME_LIMIT_S,
)
def all_gpus_stream(point: Point) -> Task:
    """Device-to-device copy by the vendor's library on all visible GPUs at the same time, and their spread."""
    return _together(point, "stream.gpu_vendor", impl="vendor", op="copy")


def _together(point: Point, module: str, **params: str) -> Task:
    from accelbench.kernels.all_gpus.together import prepare

    return prepare(point, module, params)
