"""Verifies every kernel once on small inputs, in one process; run by `test_sanitizer.py` under compute-sanitizer."""

from __future__ import annotations

import sys
from importlib import import_module

from accelbench.execution.plan import discover
from accelbench.kernels.lib.gpu import arrays as gpu_arrays
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point


def small_points() -> list[Point]:
    """Return the small points of every GPU implementation with kernels of its own, as the benchmarks declare them."""
    return [
        point
        for benchmark in discover().values()
        if "gpu" in benchmark.devices and benchmark.module
        for point in benchmark.small_points("gpu", seed=7)
        if has_kernels(benchmark.implementation("gpu", point.params))
    ]


def has_kernels(module: str | None) -> bool:
    """Return whether the implementation describes kernels by `device_code()`: others call a vendor's library alone."""
    describe = module and getattr(import_module(module), "device_code", None)
    return bool(describe and describe())


def main() -> int:
    """Print a line per kernel; the exit status is 1 if one computed a wrong answer."""
    gpu_arrays.MOST_BYTES = 0  # arrays of a few L2 caches, however much memory the card has
    wrong = 0
    for point in small_points():
        try:
            outcome = discover()[point.benchmark].prepare(point).verify()
        except Skip as skip:
            print(f"{point}: skipped: {skip}", flush=True)
            continue
        print(f"{point}: {outcome}", flush=True)
        wrong += not outcome.passed
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
