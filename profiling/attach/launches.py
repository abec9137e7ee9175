"""Experiment on the host: a compiled training function is called many times in one launch.

A loop in one function that XLA compiles calls it, always with the same batch (`loops.py`).
"""

from __future__ import annotations

from math import ceil
from time import perf_counter

from .loops import LOOPS, NoLoop

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
            self.over, self.refused = True, "no training function compiled by JAX or TensorFlow was called"
        return self.over

    def begins(self, framework: str, function: Any, trains: bool, arguments: Any) -> None:
        """Observe the begin of a call of a compiled function; the experiment precedes the call that trains."""
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
            with LOOPS[framework](function, arguments, self._returned) as launch:
                self._time(launch)
        except NoLoop as error:
            self.refused = str(error)
        except Exception as error:  # noqa: BLE001 - of the framework or the function; the script goes on without it
            self.refused = f"{type(error).__name__}: {error}".partition("\n")[0]

    def ended(self, references: list[Any]) -> None:
        """Observe the end of a call that trains; `references` are weak references to its results, or None each."""
        self._returned = references

    def _time(self, launch: Any) -> None:
        """Time launches; `launch(count)` calls the function this number of times, and waits for the device."""

        def seconds_per_call(count: int) -> float:
            begin = perf_counter()
            launch(count)
            return (perf_counter() - begin) / count

        launch(1)  # compiles
        calls = min(MAX_CALLS, ceil(SAMPLE_S / min(seconds_per_call(1), seconds_per_call(10))))
        seconds = [seconds_per_call(calls) for _ in range(SAMPLES)]
        if min(seconds) < REMOVED_S:
            raise NoLoop("the compiler removed the loop")
        self.seconds = seconds
