"""Hooks of Keras 3: the end of a batch in `fit`, an optimizer's step outside of it, and the wait for the input on JAX.

A further callback that overrides `on_train_batch_end` would make Keras wait for the device after each batch, so the
list of callbacks is observed instead. On PyTorch, Keras reads a `DataLoader`, which the hooks of PyTorch observe. On
TensorFlow, the input is read inside the compiled function, where only the trace shows the wait.
"""

from __future__ import annotations

import sys

from .session import FIT, OPTIMIZER, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class ObservedIterator:
    """Iterator that adds the waits for its batches to the steps."""

    def __init__(self, iterator: Any, session: Session) -> None:
        self._iterator, self._session = iter(iterator), session

    def __iter__(self) -> ObservedIterator:
        return self

    def __next__(self) -> Any:
        return self._session.next_batch(self, ObservedIterator._produce)

    def _produce(self) -> Any:
        return next(self._iterator)


def hooks(session: Session) -> dict[str, Callable[[ModuleType], None]]:
    """Return the functions to call after the import of Keras' modules."""

    def watch_batches(module: ModuleType) -> None:
        callbacks = module.CallbackList
        original = callbacks.on_train_batch_end

        def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> Any:
            result = original(self, batch, logs=logs)
            if session.active:
                session.guarded(session.step, FIT, _backend())
            return result

        def restore() -> None:
            callbacks.on_train_batch_end = original

        callbacks.on_train_batch_end = on_train_batch_end
        session.on_detach(restore)

    def watch_optimizers(module: ModuleType) -> None:
        optimizer = module.BaseOptimizer
        original = optimizer.apply

        def apply(self: Any, *arguments: Any, **keywords: Any) -> Any:
            result = original(self, *arguments, **keywords)
            if session.active and _executes():
                session.guarded(session.counted_step, OPTIMIZER, id(self), _backend())
            return result

        def restore() -> None:
            optimizer.apply = original

        optimizer.apply = apply
        session.on_detach(restore)

    def watch_input(module: ModuleType) -> None:
        iterator = module.JAXEpochIterator
        original = iterator._get_iterator

        def _get_iterator(self: Any) -> Any:
            found = original(self)
            return ObservedIterator(found, session) if session.active else found

        def restore() -> None:
            iterator._get_iterator = original

        iterator._get_iterator = _get_iterator
        session.on_detach(restore)

    return {
        "keras.src.callbacks.callback_list": watch_batches,
        "keras.src.optimizers.base_optimizer": watch_optimizers,
        "keras.src.backend.jax.trainer": watch_input,
    }


def _backend() -> str:
    return str(sys.modules["keras"].backend.backend())


def _executes() -> bool:
    """Return whether operations are executed, and not traced by a compiler."""
    if _backend() == "tensorflow":
        return bool(sys.modules["tensorflow"].executing_eagerly())
    return _backend() == "torch" and not sys.modules["torch"].compiler.is_compiling()
