"""C = A·B by JAX, `jax.numpy.matmul`, compiled by XLA, in every type.

Bound: 2·m·n·k operations. `float32` is strict: on a TPU XLA composes it of bfloat16 products, and on a GPU it uses no
TF32. `bfloat16`, `float16` and `fp8` (e4m3, with a bfloat16 result) accumulate in float32, `int8` in int32. On CPUs XLA
converts most narrow types to wider ones. On an H100 SXM at n = 8,192: 49.4 TFLOP/s in float32, 667 in bfloat16 and
1,240 TOP/s in int8. It has not run on a TPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.formats import FORMATS, draw, from_storage, poison_byte
from accelbench.kernels.lib.xla import Loop, Xla, timed_as_loop
from accelbench.kernels.matmul.accuracy import verify_product
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work

NAMES = {"tf32": "float32", "fp8": "float8_e4m3fn"}
"""Names of the types in JAX, where they differ."""


def prepare(point: Point) -> Task:
    """Return the task of multiplying random matrices; Skip without JAX on the device, or without enough memory."""
    product, dtype = Product.of(point), str(point["dtype"])
    xla, kind = Xla.on(point), FORMATS[dtype]
    size = product.bytes(kind.itemsize, kind.result_itemsize)
    xla.require_memory(size)
    rng = point.rng()
    batch = (product.batch,) if product.batch > 1 else ()
    shapes = (*batch, product.m, product.k), (*batch, product.k, product.n)
    precision = xla.jax.lax.DotAlgorithmPreset.TF32_TF32_F32 if dtype == "tf32" else xla.jax.lax.Precision.HIGHEST

    def multiply(a: Any, b: Any, _c: Any) -> list[Any]:
        result = _type_of(kind.result)
        return [xla.jax.numpy.matmul(a, b, precision=precision, preferred_element_type=result)]

    def load() -> list[Any]:
        """Write random matrices, and return them in storage form."""
        drawn = [draw(rng, shape, dtype) for shape in shapes]
        loop.arrays[:2] = [xla.put(numbers.view(_type_of(dtype))) for numbers in drawn]
        return drawn

    def verify() -> Verification:
        drawn = load()
        loop.arrays[2] = poisoned()
        loop.run()
        c = np.asarray(loop.arrays[2]).view(FORMATS[kind.result].storage)
        a, b = (from_storage(numbers, dtype) for numbers in drawn)
        return verify_product(a, b, from_storage(c, kind.result), dtype, rng)

    def poisoned() -> Any:
        c = np.empty((*batch, product.m, product.n), _type_of(kind.result))
        c.view(np.uint8).fill(poison_byte(kind.result))
        return xla.copy(c)

    loop = Loop(xla, multiply, [None, None, poisoned()], [2])
    load()
    return timed_as_loop(Task(loop.run, verify, Work(flops=product.flops, bytes=size)), loop)


def _type_of(dtype: str) -> Any:
    """Return the NumPy type of a type of the benchmark."""
    import ml_dtypes  # JAX depends on it

    name = NAMES.get(dtype, dtype)
    return np.dtype(getattr(ml_dtypes, name, name))
