"""Bytes and operations of BabelStream's five operations (Deakin et al., "GPU-STREAM v2.0", 2016).

Bytes are what the operation reads and writes; a cache that fetches a line before it is overwritten is not counted.
"""

from __future__ import annotations

from accelbench.profiling.records.work import Work

SCALAR = 0.4
"""The factor s of BabelStream."""
ARRAYS_MOVED = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}
FLOPS_PER_ELEMENT = {"copy": 0, "mul": 1, "add": 1, "triad": 2, "dot": 2}


def work_of(op: str, length: int, itemsize: int) -> Work:
    """Return bytes moved and floating-point operations of one execution on arrays of a length."""
    return Work(flops=FLOPS_PER_ELEMENT[op] * length or None, bytes=ARRAYS_MOVED[op] * length * itemsize)
