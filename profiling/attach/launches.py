"""Experiment on the host: a training function compiled by JAX is called many times in one launch.

The function is pure: a loop inside of one compiled function gives it its own results back, as the script does, and
always the same batch. The script's arrays are unchanged. Results that no call gets back, such as the loss, are not
computed in the loop.
"""

from __future__ import annotations

import sys
from math import ceil
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAMPLES, SAMPLE_S, MAX_CALLS = 10, 0.2, 1000
"""Number of launches, approximate seconds of each, and its largest number of calls."""
REMOVED_S = 3e-8
"""Seconds per call below which the compiler has removed the calls."""
MAX_STEPS = 5
"""Number of steps after which no call of a training function is expected any more."""


class LaunchExperiment:
    """One experiment, in the second call of the training function after its request."""

    def __init__(self) -> None:
        self._returned: list[Any] | None = None
        self._others = 0
        self.seconds: list[float] = []
        """Seconds per call of the function, one value per launch."""
        self.refused: str | None = None
        self.over = False
        self._steps = 0

    def step_ended(self) -> bool:
        """Return whether the experiment is over."""
        self._steps += 1
        if self._steps > MAX_STEPS and not self.over:
            self.over, self.refused = True, "no training function compiled by JAX was called"
        return self.over

    def begins(self, function: Any, trains: bool, arguments: Any) -> None:
        """Observe the begin of a call of a jitted function; the experiment takes place before the call that trains."""
        if self.over or self._returned is None:
            return
        if not trains:
            self._others += 1
            return
        self.over = True
        if self._others:
            self.refused = f"a step calls {self._others} other compiled functions"
            return
        try:
            self._run(function, arguments)
        except Exception as error:  # noqa: BLE001 - of JAX or of the function; the script goes on without the experiment
            self.refused = f"{type(error).__name__}: {error}".partition("\n")[0]

    def ended(self, references: list[Any]) -> None:
        """Observe the end of a call that trains; `references` are weak references to its results, or None each."""
        self._returned = references

    def _run(self, function: Any, arguments: Any) -> None:
        jax: Any = sys.modules["jax"]
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        alive = [reference and reference() for reference in self._returned or []]
        returned = {id(leaf): at for at, leaf in enumerate(alive) if leaf is not None}
        sources = {place: returned[id(leaf)] for place, leaf in enumerate(leaves) if id(leaf) in returned}
        if not sources:
            self.refused = "the function does not get its results back unchanged"
            return
        if function.trace(*arguments[0], **arguments[1]).jaxpr.effects:
            self.refused = "the function has side effects, such as prints"
            return
        constant = {at: leaf for at, leaf in enumerate(leaves) if hasattr(leaf, "dtype") and at not in sources}

        def repeat(count: Any, carried: Any, constant: Any) -> Any:
            def call(_: Any, carried: Any) -> Any:
                given = [{**constant, **carried}.get(at, leaf) for at, leaf in enumerate(leaves)]
                positional, keywords = jax.tree_util.tree_unflatten(tree, given)
                results = jax.tree_util.tree_leaves(function(*positional, **keywords))
                return {place: results[source] for place, source in sources.items()}

            return jax.lax.fori_loop(0, count, call, carried)

        compiled = jax.jit(repeat)

        def launch(count: int) -> float:
            begin = perf_counter()
            jax.block_until_ready(compiled(count, {place: leaves[place] for place in sources}, constant))
            return (perf_counter() - begin) / count

        jax.block_until_ready(leaves)
        launch(1)  # compiles
        calls = min(MAX_CALLS, ceil(SAMPLE_S / min(launch(1), launch(10))))
        seconds = [launch(calls) for _ in range(SAMPLES)]
        if min(seconds) < REMOVED_S:
            self.refused = "the compiler removed the loop"
        else:
            self.seconds = seconds
