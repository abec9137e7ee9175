"""Sum of a part of an array, in vector registers."""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.cpu.simd import add_lanes, fma, lanes_of, load, splat
from accelbench.kernels.lib.cpu.threads import compiled

CHAINS = 8
"""Independent sums: a core adds at most two vectors per cycle, with a latency of 3 or 4 cycles."""


@compiled
def sum_vectors(array: Any, begin: int, end: int, passes: int) -> Any:
    """Return the sum of array[begin:end], read `passes` times, of a float32 or float64 array.

    The part is a whole number of CHAINS vectors. The sums stay in registers from one pass to the next.
    """
    lanes = lanes_of(array)
    one = splat(array.dtype.type(1))
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = splat(array.dtype.type(0))
    for _ in range(passes):
        for i in range(begin, end, 8 * lanes):
            s0 = fma(one, load(array, i), s0)
            s1 = fma(one, load(array, i + lanes), s1)
            s2 = fma(one, load(array, i + 2 * lanes), s2)
            s3 = fma(one, load(array, i + 3 * lanes), s3)
            s4 = fma(one, load(array, i + 4 * lanes), s4)
            s5 = fma(one, load(array, i + 5 * lanes), s5)
            s6 = fma(one, load(array, i + 6 * lanes), s6)
            s7 = fma(one, load(array, i + 7 * lanes), s7)
    low = (add_lanes(s0) + add_lanes(s1)) + (add_lanes(s2) + add_lanes(s3))
    return low + ((add_lanes(s4) + add_lanes(s5)) + (add_lanes(s6) + add_lanes(s7)))
