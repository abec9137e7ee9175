"""Our matrix products beside the vendor's, on one core and on all: squares, and the shapes of deep learning.

NumPy's library multiplies floating-point numbers, oneDNN those of 8 and 16 bits, of which only squares are measured, if
PyTorch is installed and this CPU has the instruction. Both products are of the same matrices in one process. They take
turns, theirs, ours, ours, theirs, so that each ratio is of neighbours in time. Run as a program, this measures the
products that its arguments name, and prints each round's ratio.
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
TURN_SECONDS = 0.1
"""The least time of a turn: several products of the small shapes, one of the largest."""
PAUSE_SECONDS = 0.1
"""The time in which a library's threads, which spin for a while when their work is done, go to sleep."""
SQUARE_AT_LEAST, SHAPE_AT_LEAST, NARROW_AT_LEAST = 1.0, 0.9, 0.9
SKIPPED = "skipped:"
"""The word before the reason why a type cannot be measured here."""


def matmul_beside_vendor(console: Console) -> list[Bound]:
    """The rate of our product as a ratio to that of NumPy's library, or of oneDNN."""
    cpus = sorted(os.sched_getaffinity(0))
    places = {"one core": cpus[:1], "all cores": cpus} if len(cpus) > 1 else {"one core": cpus}
    bounds = []
    for place, chosen in places.items():
        for dtype in (*DTYPES, *NARROW):
            bounds += measured(place, chosen, dtype, console)
    return bounds


def measured(place: str, cpus: list[int], dtype: str, console: Console) -> list[Bound]:
    """Return the bounds for one type, found by a fresh process: a library counts its CPUs when it is loaded."""
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
    """Return the vendor's time as a ratio to ours, round by round; both answers are checked first.

    Skip where one of them cannot multiply this type.
    """
    point = Point("gemm", "cpu", {"dtype": dtype, "shape": shape}, seed=1)
    theirs, ours = (module.prepare(point) for module in (cpu_vendor, cpu_dots if dtype in NARROW else cpu_numba))
    for task in (theirs, ours):
        assert task.verify().passed
    return [round(_ratio(theirs, ours), 3) for _ in range(ROUNDS)]


def _ratio(theirs: Task, ours: Task) -> float:
    first, second, third, fourth = (_turn(task) for task in (theirs, ours, ours, theirs))
    return (first + fourth) / (second + third)


def _turn(task: Task) -> float:
    sleep(PAUSE_SECONDS)
    task.run()  # wakes this library's threads
    once = sample_seconds(task.run, 1)
    return sample_seconds(task.run, round(TURN_SECONDS / once)) if once < TURN_SECONDS else once


if __name__ == "__main__":
    kind, *asked = sys.argv[1:]
    try:
        for each in asked:
            print(each, *ratios(kind, each), flush=True)
    except Skip as reason:
        print(SKIPPED, reason)
