"""Benchmark with three kinds of work; an environment variable increases the amount of work."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from accelbench import Point, Task, Verification, Work, benchmark

ROWS = 1000


def multiply(rows: int, random: np.random.Generator) -> Callable[[], object]:
    """Return a matrix product by the vendor's library, on all cores."""
    a, b = random.random((rows, ROWS)), random.random((ROWS, ROWS))
    return lambda: a @ b


def add(rows: int, random: np.random.Generator) -> Callable[[], object]:
    """Return an addition of arrays larger than the caches, on one core."""
    a, b = random.random((rows, 4 * ROWS)), random.random((rows, 4 * ROWS))
    return lambda: np.add(a, b, out=a)


def count(rows: int, random: np.random.Generator) -> Callable[[], object]:
    """Return a loop in the Python interpreter, on one core."""
    return lambda: sum(number & 1 for number in range(100 * rows))


KINDS = {"multiply": multiply, "add": add, "count": count}


@benchmark("resizable", devices=("cpu",), axes={"kind": tuple(KINDS)}, metric="time")
def resizable(point: Point) -> Task:
    """Work of one kind, multiplied by the factor in `MORE_WORK`."""
    rows = round(ROWS * float(os.environ.get("MORE_WORK", "1")))
    passed = Verification(passed=True, method="expected value", expected=str(rows), found=str(rows))
    return Task(run=KINDS[point["kind"]](rows, point.rng()), verify=lambda: passed, work=Work())
