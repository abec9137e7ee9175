"""Hooks of TensorFlow: calls of the compiled function that trains, eager gradients, and the wait for `tf.data`.

A compiled function trains if gradients are computed while it is traced.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from .session import FUNCTION, GRADIENT, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class FunctionCalls:
    """Observed calls of all functions that `tf.function` has compiled."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._outermost: dict[int, Any] = {}
        """The function that each thread executes; functions that it calls are parts of its graph."""
        self._training = sys.modules["weakref"].WeakSet()

    def call(self, function: Any, execute: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
        """Return the function's result; the end of an outermost call of a training function ends a step."""
        thread = get_ident()
        if thread in self._outermost:
            return execute(function, *arguments, **keywords)
        self._outermost[thread] = function
        launches = self._session.launches
        trains = function in self._training
        try:
            if launches is not None and _is_eager():
                launches.begins("tensorflow", function, trains, (arguments, keywords))
            result = execute(function, *arguments, **keywords)
        finally:
            del self._outermost[thread]
        if trains or function in self._training:
            if launches is not None:
                launches.ended([])
            if self._session.count is not None:
                self._session.count.call("tensorflow", function, arguments, keywords)
            self._session.step(FUNCTION, "tensorflow", id(function))
        return result

    def gradient_computed(self, sources: Any) -> None:
        """End a step if the gradient was computed eagerly; otherwise, note that the function that is traced trains."""
        if _is_eager():
            self._session.step(GRADIENT, "tensorflow", _first_id(sources))
            return
        if not self._outermost:  # a strategy traces in threads of its own
            return
        functions = list(self._outermost.values())
        self._training.add(self._outermost.get(get_ident(), functions[-1]))


def hooks(session: Session) -> dict[str, Callable[[ModuleType], object]]:
    """Return the functions to call after the import of TensorFlow's modules."""
    calls: list[FunctionCalls] = []

    def call(execute: Callable[..., Any], function: Any, *arguments: Any, **keywords: Any) -> Any:
        return calls[0].call(function, execute, arguments, keywords)

    def gradient(compute: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        result = compute(*arguments, **keywords)
        if calls:  # of (tape, target, sources, …)
            session.guarded(calls[0].gradient_computed, keywords.get("sources", arguments[2:3]))
        return result

    def next_batch(produce: Callable[[Any], Any], iterator: Any) -> Any:
        return session.next_batch(produce, iterator) if _is_eager() else produce(iterator)

    def watch_functions(module: ModuleType) -> None:
        calls.append(FunctionCalls(session))
        session.on_synchronize(synchronize)
        session.replace(module.Function, "__call__", call)

    return {
        "tensorflow.python.eager.polymorphic_function.polymorphic_function": watch_functions,
        "tensorflow.python.eager.backprop": lambda module: session.replace(module.GradientTape, "gradient", gradient),
        "tensorflow.python.data.ops.iterator_ops": lambda module: session.replace(
            module.OwnedIterator, "__next__", next_batch
        ),
    }


def _first_id(sources: Any) -> int:
    """Return the identity of the first variable of a nest: one per model, if a script trains several."""
    while isinstance(sources, (list, tuple, dict)) and sources:
        sources = next(iter(sources.values() if isinstance(sources, dict) else sources))
    return id(sources)


def _is_eager() -> bool:
    """Return whether operations are executed, and not added to a graph."""
    return bool(sys.modules["tensorflow.python.eager.context"].executing_eagerly())


def synchronize() -> None:
    """Wait until all devices have finished."""
    if _is_eager() and (tensorflow := sys.modules.get("tensorflow")) is not None:
        tensorflow.test.experimental.sync_devices()
