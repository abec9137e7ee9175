"""Cross-entropy and its gradient by JAX: automatic differentiation of the mean loss, fused by XLA. Bound: memory.

It has run on CPUs only, not on a GPU or a TPU.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.xla_array_task import xla_array_task
from accelbench.kernels.softmax_xent.reference import problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def cross_entropy(scores: Any, labels: Any, _losses: Any, _gradient: Any) -> tuple[Any, Any]:
    """Return the loss of every row, and the gradient of the mean loss."""
    import jax
    import jax.numpy as jnp

    def mean_loss(scores: Any) -> tuple[Any, Any]:
        at_label = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
        losses = jax.nn.logsumexp(scores, axis=1) - at_label
        return losses.mean(), losses

    (_, losses), gradient = jax.value_and_grad(mean_loss, has_aux=True)(scores)
    return losses, gradient


def prepare(point: Point) -> Task:
    """See `xla_array_task`."""
    return xla_array_task(point, problem(point), cross_entropy)
