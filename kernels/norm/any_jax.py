"""Root-mean-square norm by JAX's array operations, which XLA fuses. Bound: memory.

It has run on CPUs only, not on a GPU or a TPU.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.xla_array_task import xla_array_task
from accelbench.kernels.norm.reference import EPSILON, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def normalize(x: Any, scale: Any, _out: Any) -> list[Any]:
    """Return the norm of every row of x."""
    import jax.numpy as jnp
    from jax import lax

    return [x * lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON) * scale]


def prepare(point: Point) -> Task:
    """See `xla_array_task`."""
    return xla_array_task(point, problem(point), normalize)
