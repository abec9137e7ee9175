"""Attention by JAX, `jax.nn.dot_product_attention`, the usual implementation in JAX.

Bound: the FLOP of both products. XLA computes all scores, also those that a causal mask excludes, and stores them
between the products; on NVIDIA's GPUs, 16-bit types use the fused kernel of cuDNN instead, which JAX includes. Arrays
have JAX's shape (1, sequence, heads, head). It has run on CPUs only, not on a GPU or a TPU.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.formats import FORMATS, draw, from_storage
from accelbench.kernels.lib.xla import Loop, Xla, timed_as_loop
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification


def prepare(point: Point) -> Task:
    """Return the task of random normal Q, K and V; Skip without JAX on the device, or without enough memory."""
    size, dtype = Attention.of(point), str(point["dtype"])
    xla, kind = Xla.on(point), FORMATS[dtype]
    fused = dtype in ("float16", "bfloat16") and point.device == "gpu" and device_kind("gpu").vendor == "nvidia"
    work = size.work(kind.itemsize)
    scores = 0 if fused else 4 * size.heads * size.sequence**2
    xla.require_memory(int(work.bytes or 0) + 3 * scores)
    rng = point.rng()
    in_jax = np.dtype(xla.jax.numpy.dtype(dtype))
    shape = 1, size.sequence, size.heads, size.head

    def attend(q: Any, k: Any, v: Any, _o: Any) -> list[Any]:
        how = "cudnn" if fused else "xla"
        with xla.jax.default_matmul_precision("highest") if dtype == "float32" else nullcontext():  # float32 is strict
            return [xla.jax.nn.dot_product_attention(q, k, v, is_causal=size.causal, implementation=how)]

    def load() -> list[Any]:
        """Write random Q, K and V, and return them in storage form, by heads."""
        drawn = [draw(rng, size.shape, dtype) for _ in range(3)]
        loop.arrays[:3] = [xla.put(array.view(in_jax).transpose(1, 0, 2)[None]) for array in drawn]
        return drawn

    def verify() -> Verification:
        drawn = load()
        loop.arrays[3] = xla.full(shape, np.nan, in_jax)
        loop.run()
        found = np.ascontiguousarray(np.asarray(loop.arrays[3])[0].transpose(1, 0, 2)).view(kind.storage)
        q, k, v, o = (from_storage(array, dtype) for array in (*drawn, found))
        return verify_attention(q, k, v, o, dtype, size.causal, rng)

    loop = Loop(xla, attend, [None, None, None, xla.full(shape, np.nan, in_jax)], [3])
    load()
    return timed_as_loop(Task(loop.run, verify, work), loop)
