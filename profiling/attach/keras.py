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
        return self._session.next_batch(ObservedIterator._produce, self)

    def _produce(self) -> Any:
        return next(self._iterator)


def hooks(session: Session) -> dict[str, Callable[[ModuleType], object]]:
    """Return the functions to call after the import of Keras' modules."""

    def batch_ended(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        session.step(FIT, _backend())
        return result

    def apply(original: Callable[..., Any], optimizer: Any, *arguments: Any, **keywords: Any) -> Any:
        result = original(optimizer, *arguments, **keywords)
        if _executes():
            session.step(OPTIMIZER, _backend(), id(optimizer))
        return result

    def get_iterator(original: Callable[..., Any], epoch: Any) -> Any:
        return ObservedIterator(original(epoch), session)

    return {
        "keras.src.callbacks.callback_list": lambda module: session.replace(
            module.CallbackList, "on_train_batch_end", batch_ended
        ),
        "keras.src.optimizers.base_optimizer": lambda module: session.replace(module.BaseOptimizer, "apply", apply),
        "keras.src.backend.jax.trainer": lambda module: session.replace(
            module.JAXEpochIterator, "_get_iterator", get_iterator
        ),
    }


def _backend() -> str:
    return str(sys.modules["keras"].backend.backend())


def _executes() -> bool:
    """Return whether operations are executed, and not traced by a compiler."""
    if _backend() == "tensorflow":
        return bool(sys.modules["tensorflow"].executing_eagerly())
    return _backend() == "torch" and not sys.modules["torch"].compiler.is_compiling()
