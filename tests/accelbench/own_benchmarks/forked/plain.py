"""Imports NumPy, whose OpenBLAS has threads, and multiplies by it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from behaviours import BEHAVIOURS, hang, passing

from profiling.benchmark import Metric, Point, Task, Work

IMPORTED = time.time()


def prepare(point: Point) -> Task:
    """Metrics tell which process imported this, and which measures."""
    a = np.arange(400.0 * 400.0).reshape(400, 400) % 7

    def multiply() -> None:
        product = a @ a
        assert product[1, 2] == sum(x * y for x, y in zip(a[1], a[:, 2], strict=True))

    def beget() -> None:
        child = subprocess.Popen(["sleep", "300"])
        print(f"begot {child.pid}", flush=True)
        hang()

    behaviours: dict[str, Callable[[], object]] = BEHAVIOURS | {"well": multiply, "beget": beget}

    def facts(_seconds: float) -> dict[str, Metric]:
        found = {
            "imported": IMPORTED,
            "process": os.getpid(),
            "parent": os.getppid(),
            "group": os.getpgid(0),
            "threads": len(list(Path("/proc/self/task").iterdir())),
        }
        return {name: Metric(float(value)) for name, value in found.items()}

    return Task(behaviours[point["how"]], passing, Work(), timer="host", metrics=facts)
