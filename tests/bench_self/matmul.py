"""Our matrix products compared with the vendor's, on one core and on all: squares, and shapes of deep learning.

The vendor's library is NumPy's BLAS for float32 and float64, and oneDNN for 8 and 16 bits; the latter is measured for
squares only, if PyTorch is installed and the CPU has the instruction. Both products are of the same matrices in one
process, in the order vendor, ours, ours, vendor, so that each ratio is of consecutive measurements. As a program, this
module measures the products named by its arguments and prints the ratio of each repetition.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import sleep

from rich.console import Console

from accelbench.kernels.matmul import cpu_dots, cpu_numba, cpu_vendor
from accelbench.kernels.matmul.narrow_task import NARROW
from accelbench.kernels.matmul.shapes import CPU_SHAPES
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.host import sample_seconds
from tests.bench_self.bounds import ROUNDS, Bound

DTYPES = ("float32", "float64")
SQUARES = ("1024x1024x1024", "2048x2048x2048", "4096x4096x4096")
SAMPLE_SECONDS = 0.1
"""Minimum time of a measurement: several products of small shapes, one of the largest."""
PAUSE_SECONDS = 0.1
"""Pause in which the threads of a library stop spinning after their work."""
SQUARE_AT_LEAST, SHAPE_AT_LEAST, NARROW_AT_LEAST = 1.0, 0.9, 0.9
SKIPPED = "skipped:"
"""Prefix of the reason why a dtype cannot be measured on this machine."""


def matmul_against_vendor(console: Console) -> list[Bound]:
    """Return the rate of our product ÷ the rate of NumPy's BLAS or of oneDNN."""
    cpus = sorted(os.sched_getaffinity(0))
    places = {"one core": cpus[:1], "all cores": cpus} if len(cpus) > 1 else {"one core": cpus}
    bounds = []
    for place, chosen in places.items():
        for dtype in (*DTYPES, *NARROW):
            bounds += measured(place, chosen, dtype, console)
    return bounds


def measured(place: str, cpus: list[int], dtype: str, console: Console) -> list[Bound]:
    """Return the bounds for one dtype, measured in a new process, since libraries count the CPUs when loaded."""
    command = [
        "taskset",
        "--cpu-list",
        ",".join(map(str, cpus)),
        sys.executable,
        "-m",
        "tests.bench_self.matmul",
        dtype,
    ]
    shapes = SQUARES if dtype in NARROW else (*SQUARES, *CPU_SHAPES)
    output = subprocess.run([*command, *shapes], stdout=subprocess.PIPE, text=True, check=True).stdout
    bounds = []
    for line in output.splitlines():
        shape, *found = line.split()
        if shape == SKIPPED:
            console.print(f"matmul {dtype}, {place}: {line}")
            continue
        name = f"matmul {dtype} {shape}, {place}: Numba ÷ vendor"
        least = NARROW_AT_LEAST if dtype in NARROW else SQUARE_AT_LEAST if shape in SQUARES else SHAPE_AT_LEAST
        bounds.append(Bound(name, "×", at_least=least, found=[float(ratio) for ratio in found]))
        console.print(f"{name}: {' '.join(found)}")
    return bounds


def ratios(dtype: str, shape: str) -> list[float]:
    """Return the vendor's time ÷ ours of each repetition, after verifying both answers.

    Raises Skip if one of them does not support this dtype.
    """
    point = Point("gemm", "cpu", {"dtype": dtype, "shape": shape}, seed=1)
    theirs, ours = (module.prepare(point) for module in (cpu_vendor, cpu_dots if dtype in NARROW else cpu_numba))
    for task in (theirs, ours):
        assert task.verify().passed
    return [round(_ratio(theirs, ours), 3) for _ in range(ROUNDS)]


def _ratio(theirs: Task, ours: Task) -> float:
    first, second, third, fourth = (_seconds(task) for task in (theirs, ours, ours, theirs))
    return (first + fourth) / (second + third)


def _seconds(task: Task) -> float:
    sleep(PAUSE_SECONDS)
    task.run()  # wakes the library's threads
    once = sample_seconds(task.run, 1)
    return sample_seconds(task.run, round(SAMPLE_SECONDS / once)) if once < SAMPLE_SECONDS else once


if __name__ == "__main__":
    dtype, *shapes = sys.argv[1:]
    try:
        for shape in shapes:
            print(shape, *ratios(dtype, shape), flush=True)
    except Skip as reason:
        print(SKIPPED, reason)
