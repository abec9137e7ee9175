"""What the kernels that work row by row share: how many rows there are, and where in one vectors can be written."""

from __future__ import annotations

from accelbench.kernels.stream.cpu_numba import elements_per_array
from accelbench.kernels.threads import compiled

UNIT = 2.0**-24
"""The unit roundoff u of float32: half the distance from 1 to the next number."""
CHECKED_AT_ONCE = 1 << 22
"""Elements, in whole rows, that a check holds in float64 at a time: 32 MiB an array."""


def rows_per_array(width: int, threads: int) -> int:
    """Return the rows of float32 that make an array as long as stream's, as many for every thread."""
    step = width * threads
    return -(-elements_per_array(4, threads) // step) * threads


def chunks(rows: int, width: int) -> list[tuple[int, int]]:
    """Return the first row and the row behind the last of every part that a check takes at a time."""
    step = max(1, CHECKED_AT_ONCE // width)
    return [(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


@compiled
def aligned_part(begin: int, end: int, lanes: int) -> tuple[int, int]:
    """Return the longest part from `begin` to before `end` that is whole vectors, each at a multiple of its length."""
    first = min(-(-begin // lanes) * lanes, end)
    return first, first + (end - first) // lanes * lanes
