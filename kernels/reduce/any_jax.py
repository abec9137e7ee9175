"""Sum by JAX, `jax.numpy.sum`, compiled by XLA. Bound: memory; int32 is summed in int64.

On CPUs XLA first converts int32 to an array of int64, which it allocates in each call.

It has run on CPUs only, not on a GPU or a TPU.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.xla_array_task import xla_array_task
from accelbench.kernels.reduce.reference import SUM_TYPE, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `xla_array_task`."""
    dtype = SUM_TYPE[str(point["dtype"])]

    def add_up(x: Any, _out: Any) -> list[Any]:
        import jax.numpy as jnp

        return [jnp.sum(x, dtype=dtype)[None]]

    return xla_array_task(point, problem(point), add_up)
