"""Problems of kernels that pass over long arrays: arrays, work and check of the results, the same on every device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from accelbench.kernels.lib.random_array import RandomArray
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

CHECKED_AT_ONCE = 1 << 22
"""Elements, in whole rows, that a check holds in float64 at a time: 32 MiB per array."""

RowBlock = tuple[list[Any], list[Any]]
"""Rows of a checked problem: (generated inputs, results read back), each in the order of the operands."""


@dataclass(frozen=True)
class Operand:
    """One array argument of a kernel. Arrays are flat, of whole rows."""

    draw: Callable[[np.random.Generator, int], Any] | None = None
    """Function of (generator, elements) that returns random contents: a `RandomArray` or a NumPy array. None for an
    output."""
    written: bool = False
    """Whether the kernel writes the array; an operand with `draw` and `written` is updated in place."""
    length: int = 1
    """Elements of a row; elements of the array if `per_row` is false."""
    per_row: bool = True
    """Whether the array has as many rows as the first operand."""
    dtype: str = "float32"

    def size(self, rows: int) -> int:
        """Return the elements of the array."""
        return self.length * rows if self.per_row else self.length

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """Return the elements of the rows [first, last): the whole array if it has no rows."""
        return (self.length * first, self.length * last) if self.per_row else (0, self.length)

    def part(self, contents: Any, first: int, last: int) -> Any:
        """Return the rows [first, last) of generated contents."""
        begin, end = self.bounds(first, last)
        return contents.between(begin, end) if isinstance(contents, RandomArray) else contents[begin:end]


@dataclass(frozen=True)
class ArrayProblem:
    """The arrays of one point, in the order of a kernel's arguments; the first one is long."""

    operands: tuple[Operand, ...]
    work: Callable[[int], Work]
    """Function that returns the work of one execution on a number of rows."""
    metrics: Callable[[int], dict[str, Metric]]
    """Function that returns the sizes to report for a number of rows."""
    verify: Callable[[Iterator[RowBlock], int], Verification]
    """Function that checks the results, given in blocks of rows; its second argument is the total number of rows."""

    @property
    def width(self) -> int:
        """Elements of a row of the long arrays."""
        return self.operands[0].length

    @property
    def dtype(self) -> Any:
        """Type of the long arrays."""
        return np.dtype(self.operands[0].dtype)

    @property
    def long(self) -> list[Operand]:
        """Operands that are as long as the first one."""
        return [operand for operand in self.operands if operand.per_row and operand.length == self.width]

    @property
    def moved(self) -> int:
        """Long arrays that one execution reads or writes."""
        return sum((operand.draw is not None) + operand.written for operand in self.long)


class ArrayMemory(Protocol):
    """Interface for host access to the arrays of a device."""

    def write(self, array: Any, contents: Any) -> None:
        """Write generated contents, a `RandomArray` or a NumPy array, to every element."""

    def poison(self, array: Any) -> None:
        """Write a value that is no correct result to every element."""

    def read(self, array: Any, begin: int, end: int) -> Any:
        """Return the elements [begin, end) as a NumPy array."""


def checked_task(
    problem: ArrayProblem,
    rows: int,
    arrays: Sequence[Any],
    memory: ArrayMemory,
    *,
    rng: np.random.Generator,
    run: Callable[..., object],
    run_to_end: Callable[[], object],
    metrics: dict[str, Metric],
) -> Task:
    """Return the task of `run` on a problem's arrays, which are filled with random contents here.

    The check generates fresh inputs, poisons the outputs, calls `run_to_end`, which does one execution and waits for
    its end, and reads the results block by block.
    """
    pairs = list(zip(problem.operands, arrays, strict=True))

    def draw() -> list[Any]:
        drawn = []
        for operand, array in pairs:
            if operand.draw is not None:
                drawn.append(operand.draw(rng, operand.size(rows)))
                memory.write(array, drawn[-1])
        return drawn

    def verify() -> Verification:
        drawn = draw()
        for operand, array in pairs:
            if operand.draw is None:
                memory.poison(array)
        run_to_end()
        return problem.verify(blocks(drawn), rows)

    def blocks(drawn: list[Any]) -> Iterator[RowBlock]:
        inputs = [operand for operand, _ in pairs if operand.draw is not None]
        step = max(1, CHECKED_AT_ONCE // problem.width)
        for first in range(0, rows, step):
            last = min(first + step, rows)
            before = [operand.part(contents, first, last) for operand, contents in zip(inputs, drawn, strict=True)]
            after = [memory.read(array, *operand.bounds(first, last)) for operand, array in pairs if operand.written]
            yield before, after

    draw()
    return Task(run=run, verify=verify, work=problem.work(rows), metrics=lambda _seconds: metrics)
