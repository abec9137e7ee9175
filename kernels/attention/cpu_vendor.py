"""Attention in plain NumPy: both products by its BLAS on all cores, the softmax by array operations on one core.

Bound: the FLOP of both products in the FMA units. In practice the softmax dominates, because one core computes n²
exponentials per head in four passes over the stored scores while the others wait. Measured, alternating with
`cpu_numba`: 0.16–0.33 of the bound.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from accelbench.kernels.attention.cpu_task import Attend, cpu_task
from accelbench.kernels.attention.shape import Attention
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.limiting_settings import BLAS
from accelbench.profiling.records.point import Point

BLOCK = 1 << 22
"""Scores of a block of heads: 16 MiB of float32, which fit in last-level caches; a single head may have more."""


def attender(size: Attention, dtype: Any) -> Attend:
    """Return the attention function, with buffers for the scores and the mask."""
    step, n = size.heads_within(BLOCK), size.sequence
    scores = np.empty((step, n, n), dtype)
    scale = dtype.type(1 / math.sqrt(size.head))
    mask = np.triu(np.full((n, n), -np.inf, dtype), k=1) if size.causal else None

    def attend(q: Any, k: Any, v: Any, o: Any) -> None:
        for first in range(0, size.heads, step):
            heads = slice(first, first + step)
            weights = scores[: len(q[heads])]
            np.matmul(q[heads] * scale, k[heads].swapaxes(1, 2), out=weights)
            if mask is not None:
                weights += mask
            weights -= weights.max(axis=2, keepdims=True)
            np.exp(weights, out=weights)
            np.matmul(weights, v[heads], out=o[heads])
            o[heads] /= weights.sum(axis=2, keepdims=True)

    return attend


def prepare(point: Point) -> Task:
    """See `cpu_task`."""
    task = cpu_task(point, attender, lambda size: (size.heads_within(BLOCK) + size.causal) * size.sequence**2)
    return replace(task, library=BLAS)
