"""Script that verifies every kernel once on small inputs; run by `test_sanitizer.py` under compute-sanitizer."""

from __future__ import annotations

import sys
from importlib import import_module

from accelbench.execution.plan import discover
from accelbench.kernels.lib.gpu import arrays as gpu_arrays
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point


def small_points() -> list[Point]:
    """Return the declared small points of every GPU implementation that has kernels."""
    return [
        point
        for benchmark in discover().values()
        if "gpu" in benchmark.devices and benchmark.module
        for point in benchmark.small_points("gpu", seed=7)
        if has_kernels(benchmark.implementation("gpu", point.params))
    ]


def has_kernels(module: str | None) -> bool:
    """Return whether the implementation has kernels in `device_code()`; others only call a vendor's library."""
    describe = module and getattr(import_module(module), "device_code", None)
    return bool(describe and describe())


def verify(points: list[Point]) -> int:
    """Verify the points and print one line for each; return 1 if one is wrong, and else 0."""
    gpu_arrays.MOST_BYTES = 0  # arrays of a few L2 caches, independent of the device memory
    wrong = 0
    for point in points:
        try:
            outcome = discover()[point.benchmark].prepare(point).verify()
        except Skip as skip:
            print(f"{point}: skipped: {skip}", flush=True)
            continue
        print(f"{point}: {outcome}", flush=True)
        wrong += not outcome.passed
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(verify(small_points()))
