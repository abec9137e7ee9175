"""TensorFlow strategies that Keras's `fit` supports, with several replicas in one process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.strategy import Strategy


class OwnFit(Strategy):
    """Base class of TensorFlow strategies that `fit` and `predict` of Keras 3 support."""

    _strategy: Any

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        if model.optimizer.global_clipnorm or model.optimizer.clipnorm:
            _clip_together(model.optimizer)
        return super().train(model, batches, epochs, callbacks)


def _clip_together(optimizer: Any) -> None:
    """Make the optimizer sum gradients before it clips them; Keras clips each replica's gradients separately."""
    add_up, clip = type(optimizer)._all_reduce_sum_gradients, type(optimizer)._clip_gradients

    def clip_sum(gradients: list[Any]) -> list[Any]:
        pairs = add_up(optimizer, [(gradient, None) for gradient in gradients])
        clipped: list[Any] = clip(optimizer, [gradient for gradient, _ in pairs])
        return clipped

    optimizer._clip_gradients = clip_sum
    optimizer._all_reduce_sum_gradients = lambda pairs: pairs
