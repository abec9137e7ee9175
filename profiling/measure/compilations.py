"""Compilations by JAX during a measurement: a program that is compiled again takes part of the measured time."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from accelbench.profiling.attach.jax import COMPILED


class JaxCompilations:
    """Compilations by JAX in a `with` block; none if the process has not imported JAX before."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._open = True

    def __enter__(self) -> JaxCompilations:
        if "jax" in sys.modules:
            from jax import monitoring

            monitoring.register_event_duration_secs_listener(self._add)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open = False  # not every version of JAX can remove a listener

    def _add(self, event: str, seconds: float, **_: Any) -> None:
        if event == COMPILED and self._open:
            self.seconds.append(seconds)

    def flags(self) -> list[str]:
        """Return a noise flag if JAX compiled programs in the block, else an empty list."""
        if not self.seconds:
            return []
        count = len(self.seconds)
        return [
            f"JAX compiled {count} program{'s' * (count > 1)} during the samples ({sum(self.seconds):.2g} s): keep the "
            "shapes and types of all arguments of jax.jit the same"
        ]
