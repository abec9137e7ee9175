"""Task of a product of int8 or bfloat16 on the CPU: matrices in storage form, and the check of the result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelbench.kernels.lib.formats import FORMATS, draw, from_storage, poison_byte
from accelbench.kernels.matmul.accuracy import verify_product
from accelbench.kernels.matmul.cpu_task import Multiply
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work

NARROW = ("bfloat16", "int8")


def narrow_task(point: Point, multiplier: Callable[[Product, str], Multiply]) -> Task:
    """Return the task of multiplying random matrices by `multiplier(product, dtype)`, which returns a `Multiply`.

    Skip if the matrices, and C once more in 32 bits, need more than half of the available memory.
    """
    product, dtype = Product.of(point), str(point["dtype"])
    kind = FORMATS[dtype]
    result = FORMATS[kind.result]
    size = product.bytes(kind.itemsize, kind.result_itemsize)
    require_memory(size + 4 * product.batch * product.m * product.n)
    rng = point.rng()
    multiply = multiplier(product, dtype)
    shapes = (product.batch, product.m, product.k), (product.batch, product.k, product.n)
    a, b = (draw(rng, shape, dtype) for shape in shapes)
    c = np.empty((product.batch, product.m, product.n), result.storage)

    def run() -> None:
        multiply(a, b, c)

    def verify() -> Verification:
        for array, shape in zip((a, b), shapes, strict=True):
            array[:] = draw(rng, shape, dtype)
        c.view(np.uint8).fill(poison_byte(kind.result))
        run()
        read = from_storage(a, dtype), from_storage(b, dtype), from_storage(c, kind.result)
        return verify_product(read[0], read[1], read[2], dtype, rng)

    return Task(run=run, verify=verify, work=Work(flops=product.flops, bytes=size))
