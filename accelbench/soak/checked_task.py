"""Task of which every execution is checked: bit by bit against a verified one, or by its own verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.quality import Verification
from accelbench.soak.bits import BitDifference, first_difference

Inject = Callable[[Sequence[Any]], object]
"""Function that changes the result of an execution, to test the check."""


@dataclass(frozen=True)
class CheckedPass:
    """One execution with its check."""

    seconds: float
    """Time of the execution; with its verification if the task has no output to compare."""
    difference: BitDifference | None = None
    """Wrong bits; None if there are none, or if the task was verified."""
    verification: Verification | None = None
    """Failed verification; None if it passed, or if the bits were compared."""

    @property
    def is_right(self) -> bool:
        """Return whether the result was right."""
        return self.difference is None and self.verification is None


class CheckedTask:
    """Prepared task, and the result of its verified execution."""

    def __init__(self, task: Task, execute: Callable[[], object] | None = None) -> None:
        """`execute` runs the task once to its end; by default its function `run`."""
        self.task = task
        self._execute = execute or task.run
        self._expected: list[Any] = []

    def verify(self) -> CheckedPass:
        """Run once with the benchmark's verification, and keep the result; Skip if there is no memory for it."""
        begin = perf_counter()
        verification = self.task.verify()
        seconds = perf_counter() - begin
        if not verification.passed:
            return CheckedPass(seconds, verification=verification)
        if output := self.task.output:
            arrays = output.read()
            if isinstance(arrays[0], np.ndarray):
                require_memory(sum(array.nbytes for array in arrays))
            self._expected = [array.copy() for array in arrays]
        return CheckedPass(seconds)

    def run(self, inject: Inject | None = None) -> CheckedPass:
        """Run once after `verify`, and check the result; `inject` changes it before."""
        output = self.task.output
        if output is None:
            return self.verify()
        output.poison()
        begin = perf_counter()
        self._execute()
        seconds = perf_counter() - begin
        found = output.read()
        if inject:
            inject(found)
        return CheckedPass(seconds, first_difference(self._expected, found))
