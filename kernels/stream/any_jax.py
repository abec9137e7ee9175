"""BabelStream's five operations by JAX's array operations, compiled by XLA. Bound: memory.

The result is written to a donated array, because a new one in each call would mostly measure page faults. XLA uses
ordinary stores on CPUs: each line of the result is read before it is overwritten, which is not counted. dot is checked
exactly, on whole numbers. It has run on CPUs only, not on a GPU or a TPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from accelbench.kernels.lib.array_problem import ArrayProblem, Operand, RowBlock
from accelbench.kernels.lib.exact import LARGEST, exact_sum, verify_sum
from accelbench.kernels.lib.random_array import PART, draw_normal, draw_whole
from accelbench.kernels.lib.xla_array_task import xla_array_task
from accelbench.kernels.stream.accuracy import verify_elements
from accelbench.kernels.stream.operations import READS_Y, SCALAR, work_of
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification


def operate(op: str, x: Any, *others: Any) -> list[Any]:
    """Return the result of the operation on x and, for add, triad and dot, y; the last array is the old result."""
    import jax.numpy as jnp
    from jax import lax

    y = others[0]
    match op:
        case "copy":
            return [jnp.array(x, copy=True)]
        case "mul":
            return [SCALAR * x]
        case "add":
            return [x + y]
        case "triad":
            return [x + SCALAR * y]
        case _:
            return [jnp.dot(x, y, precision=lax.Precision.HIGHEST)[None]]


def prepare(point: Point) -> Task:
    """See `xla_array_task`."""
    op, dtype = str(point["op"]), np.dtype(str(point["dtype"]))

    def drawn(largest: int) -> Operand:
        draw = (lambda rng, _: draw_whole(rng, largest)) if op == "dot" else (lambda rng, _: draw_normal(rng, dtype))
        return Operand(draw, dtype=dtype.name)

    def verify(blocks: Iterable[RowBlock], _length: int) -> Verification:
        if op == "dot":
            return verify_total(blocks)
        return verify_elements(op, dtype, ((x[0], x[-1], out) for x, (out,) in blocks))

    inputs = (drawn(LARGEST), drawn(1)) if op in READS_Y else (drawn(LARGEST),)
    problem = ArrayProblem(
        operands=(*inputs, Operand(written=True, per_row=op != "dot", dtype=dtype.name)),
        work=lambda length: work_of(op, length, dtype.itemsize),
        metrics=lambda length: {"array": Metric(length * dtype.itemsize / 2**20, "MiB")},
        verify=verify,
    )
    return xla_array_task(point, problem, partial(operate, op))


def verify_total(blocks: Iterable[RowBlock]) -> Verification:
    """Check the dot product of whole numbers bit by bit."""
    expected, found = 0, np.nan
    for (x, y), (out,) in blocks:
        expected += exact_sum((x[i : i + PART], y[i : i + PART]) for i in range(0, len(x), PART))
        found = out[0]
    return verify_sum(expected, found)
