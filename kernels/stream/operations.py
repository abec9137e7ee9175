"""Bytes and FLOP of BabelStream's five operations (Deakin et al., "GPU-STREAM v2.0", 2016).

Reads of cache lines before they are overwritten are not counted.
"""

from __future__ import annotations

from accelbench.profiling.records.work import Work

SCALAR = 0.4
"""BabelStream's factor s."""
READS_Y = ("add", "triad", "dot")
"""Operations with two inputs."""
ARRAYS_MOVED = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}
FLOPS_PER_ELEMENT = {"copy": 0, "mul": 1, "add": 1, "triad": 2, "dot": 2}


def work_of(op: str, length: int, itemsize: int) -> Work:
    """Return bytes moved and floating-point operations of one execution on arrays of a length."""
    return Work(flops=FLOPS_PER_ELEMENT[op] * length or None, bytes=ARRAYS_MOVED[op] * length * itemsize)
