"""Hook of JAX: the end of a call of the jitted function that trains.

JAX has no optimizer and no loop to observe. A training step is recognised by its data flow: a jitted function that gets
back what it returned, parameters and the optimizer's state, in its next call.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from .session import JITTED, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

COMPILED = "/jax/core/compile/backend_compile_duration"
"""JAX's event of one compilation by XLA (jax.monitoring)."""
EXAMINED = 20
"""Number of calls after which a function that has not got back its results is no training step."""


class JittedCalls:
    """The observed calls of all jitted functions."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.outermost: dict[int, JittedFunction] = {}
        """The jitted function that each thread executes; functions that it calls are traced, and not executed."""
        self.training = False
        """Whether the thread of the steps executes an untouched step, which is not among the outermost ones."""
        self._last: Any = None
        self.compilations: list[float] = []
        """Seconds of the compilations in the current call."""

    def compiled(self, event: str, seconds: float, **_: Any) -> None:
        """Add a compilation in an observed call."""
        if event == COMPILED and self.session.active and self.executes(get_ident()):
            self.compilations.append(seconds)

    def executes(self, thread: int) -> bool:
        """Return whether this thread executes a jitted function."""
        return thread in self.outermost or (self.training and thread == self.session.thread)

    def ended(self, function: JittedFunction, arguments: Any, results: Any) -> None:
        """Examine whether the function trains; if so, its call was a step."""
        found, self.compilations = self.compilations, []
        if function.trains is None:
            self._examine(function, arguments, results)
        elif function.trains and found and not (self.session.count or self.session.launches):  # which compile, too
            self.session.emit("compiled", len(found), sum(found))
        if function.trains:
            if self.session.waits_for_device:
                references = _references(results)
                self._last = next((reference for reference in reversed(references) if reference), None)
                if self.session.launches is not None:
                    self.session.launches.ended(references)
            self.session.step(JITTED, "jax", id(function))

    def _examine(self, function: JittedFunction, arguments: Any, results: Any) -> None:
        """Set `trains` if the function has got back what it returned last, or never does."""
        alive = [reference and reference() for reference in function.returned]
        returned = {id(array) for array in alive if array is not None}
        if any(id(leaf) in returned for leaf in sys.modules["jax.tree_util"].tree_leaves(arguments)):
            function.trains, function.returned = True, []
            return
        function.returned = _references(results)
        function.examined += 1
        if function.examined == EXAMINED:
            function.trains, function.returned = False, []

    def synchronize(self) -> None:
        """Wait until the last step has finished on its devices."""
        array = self._last() if self._last is not None else None
        if array is not None and not array.is_deleted():
            array.block_until_ready()


def _references(results: Any) -> list[Any]:
    """Return weak references to the leaves that are arrays, which the observation must not keep alive; else None."""
    leaves = sys.modules["jax.tree_util"].tree_leaves(results)
    return [sys.modules["weakref"].ref(leaf) if hasattr(leaf, "is_deleted") else None for leaf in leaves]


class JittedFunction:
    """Wrapper of a function compiled by `jax.jit`, which observes its calls."""

    def __init__(self, function: Any, calls: JittedCalls) -> None:
        sys.modules["functools"].update_wrapper(self, function)
        self.__wrapped__ = function.__wrapped__
        self._function, self._calls = function, calls
        self.trains: bool | None = None
        """Whether it is a training step; None if that is not known yet."""
        self.returned: list[Any] = []
        """Weak references to the arrays that it returned last."""
        self.examined = 0

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        calls = self._calls
        if not self.trains or calls.training or get_ident() != calls.session.fast_thread:
            return self._call(arguments, keywords)
        calls.training = True
        try:
            results = self._function(*arguments, **keywords)
        finally:
            calls.training = False
        if calls.compilations:
            calls.session.guarded(calls.ended, self, (arguments, keywords), results)
        else:
            calls.session.step(JITTED, "jax", id(self))
        return results

    def _call(self, arguments: Any, keywords: Any) -> Any:
        calls, session, thread = self._calls, self._calls.session, get_ident()
        ignored = self.trains is False and session.launches is None
        if ignored or calls.executes(thread) or not session.active:
            return self._function(*arguments, **keywords)
        calls.outermost[thread] = self
        try:
            self._begin(session, arguments, keywords)
            results = self._function(*arguments, **keywords)
        finally:
            del calls.outermost[thread]
        session.guarded(calls.ended, self, (arguments, keywords), results)
        return results

    def _begin(self, session: Session, arguments: Any, keywords: Any) -> None:
        if self.trains and session.count is not None:
            session.count.call("jax", self._function, arguments, keywords)
        if session.launches is not None:
            session.launches.begins("jax", self._function, bool(self.trains), (arguments, keywords))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else sys.modules["types"].MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __deepcopy__(self, memo: Any) -> JittedFunction:
        return self

    def lower(self, *arguments: Any, **keywords: Any) -> Any:
        """Lower the function, as `jax.stages.Wrapped` requires."""
        return self._function.lower(*arguments, **keywords)

    def trace(self, *arguments: Any, **keywords: Any) -> Any:
        """Trace the function, as `jax.stages.Wrapped` requires."""
        return self._function.trace(*arguments, **keywords)


def hooks(session: Session) -> dict[str, Callable[[ModuleType], object]]:
    """Return the function to call after the import of JAX."""

    calls = JittedCalls(session)

    def jit(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        compiled = original(*arguments, **keywords)
        if not hasattr(compiled, "lower"):  # a decorator, from keywords only
            return lambda function: JittedFunction(compiled(function), calls)
        return JittedFunction(compiled, calls)

    def watch_functions(module: ModuleType) -> None:
        session.replace(module, "jit", jit)
        if (monitoring := sys.modules.get("jax.monitoring")) is not None:
            monitoring.register_event_duration_secs_listener(calls.compiled)
        session.on_synchronize(calls.synchronize)

    return {"jax": watch_functions}
