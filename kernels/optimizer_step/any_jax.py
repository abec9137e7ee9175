"""AdamW by JAX's array operations on donated parameters and means, fused by XLA. Bound: memory.

It has run on CPUs only, not on a GPU or a TPU.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.xla_array_task import xla_array_task
from accelbench.kernels.optimizer_step.reference import (
    BETA_1,
    BETA_2,
    CORRECTION_1,
    CORRECTION_2,
    DECAY,
    EPSILON,
    RATE,
    problem,
)
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def step(parameter: Any, gradient: Any, mean: Any, square: Any) -> tuple[Any, Any, Any]:
    """Return the parameters and both means after one step."""
    import jax.numpy as jnp

    mean = BETA_1 * mean + (1 - BETA_1) * gradient
    square = BETA_2 * square + (1 - BETA_2) * gradient * gradient
    update = (RATE / CORRECTION_1) * mean / (jnp.sqrt(square * (1 / CORRECTION_2)) + EPSILON)
    return (1 - RATE * DECAY) * parameter - update, mean, square


def prepare(point: Point) -> Task:
    """See `xla_array_task`."""
    return xla_array_task(point, problem(), step)
