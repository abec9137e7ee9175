"""Benchmarks with three kinds of work; an environment variable increases the amount of work."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from accelbench import Point, Task, Verification, Work, benchmark

ROWS, COLUMNS = 1000, 4000


def multiply(rows: int, random: np.random.Generator) -> Callable[[], object]:
    """Return a matrix product by the vendor's library, on all cores."""
    a, b = random.random((rows, ROWS)), random.random((ROWS, ROWS))
    return lambda: a @ b


def count(rows: int, random: np.random.Generator) -> Callable[[], object]:
    """Return a loop in the Python interpreter, on one core."""
    return lambda: sum(number & 1 for number in range(100 * rows))


KINDS = {"multiply": multiply, "count": count}


@benchmark("resizable", devices=("cpu",), axes={"kind": tuple(KINDS)}, metric="time")
def resizable(point: Point) -> Task:
    """Work of one kind, multiplied by the factor in `MORE_WORK`."""
    return task(KINDS[point["kind"]](rows(), point.rng()), Work())


@benchmark("resizable-arrays", devices=("cpu",), axes={"kind": ("add",)}, metric="bytes", bound="memory")
def resizable_arrays(point: Point) -> Task:
    """Addition of arrays larger than the caches, on one core; the bytes are those without more work."""
    random = point.rng()
    a, b = random.random((rows(), COLUMNS)), random.random((rows(), COLUMNS))
    return task(lambda: np.add(a, b, out=a), Work(bytes=3 * 8 * ROWS * COLUMNS))


def rows() -> int:
    return round(ROWS * float(os.environ.get("MORE_WORK", "1")))


def task(run: Callable[[], object], work: Work) -> Task:
    passed = Verification(passed=True, method="expected value", expected=str(rows()), found=str(rows()))
    return Task(run=run, verify=lambda: passed, work=work)
