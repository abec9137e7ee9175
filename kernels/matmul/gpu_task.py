"""Task of the GPU implementations of the matrix product: matrices on the device, and the check of the result.

An implementation is a function of `MatmulOperands` that sets up what it needs and returns `run(stream)`:

    def prepare(point: Point) -> Task:
        def bind(operands: MatmulOperands) -> Callable[[int], None]:
            def run(stream: int) -> None:
                ...  # enqueue C = A·B
            return run

        return gpu_task(point, bind)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from accelbench.kernels.lib.formats import FORMATS, draw, from_storage, poison_byte
from accelbench.kernels.matmul.accuracy import verify_product
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Output, Task
from accelbench.profiling.devices.cupy_device import cupy_library, require_device_memory, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work

ALIGNMENT = 16
"""Alignment of rows in bytes, as with `cudaMallocPitch`: required by 16-byte loads and by the bulk copy engine (TMA).
Every implementation gets the same matrices."""


@dataclass(frozen=True)
class MatmulOperands:
    """Matrices of a product in device memory: contiguous CuPy arrays (`.data.ptr` is the address).

    Every size is padded to a multiple of 16 bytes of A's and B's elements. The padding of A and B is zero, and that of
    C is ignored, so that a kernel may multiply the padded sizes.
    """

    product: Product
    dtype: str
    a: Any
    """Array of shape (batch, m′, k′) and type `FORMATS[dtype].storage`; m′, n′ and k′ are the padded sizes."""
    b: Any
    """Array of shape (batch, k′, n′); (batch, n′, k′) if stored by columns, as fp8 and int8 tensor cores require."""
    c: Any
    """Array of shape (batch, m′, n′) and type `FORMATS[dtype].result`."""
    workspace: Any
    """Workspace of the requested size, for example for partial sums; poisoned like C before a check."""

    @property
    def padded(self) -> Product:
        """Product with the padded sizes."""
        batch, m, k = self.a.shape
        return Product(m, self.c.shape[2], k, batch)


Bind = Callable[[MatmulOperands], Callable[[int], object]]
Values = Callable[[], tuple[Any, Any]]
"""Function that returns the exact values of A (batch, m, k) and B (batch, k, n)."""


def gpu_task(
    point: Point,
    bind: Bind,
    *,
    b_by_columns: bool = False,
    unit_kind: Literal["plain", "tensor"] | None = None,
    workspace: Callable[[Product], int] = lambda padded: 0,
) -> Task:
    """Return the task of multiplying random matrices of the point's type and sizes by `run(stream)`, which `bind`
    returns.

    `unit_kind` becomes `Work.unit_kind`. `workspace` returns the bytes that a product of padded sizes needs in addition
    to the matrices. Skip if both need more than half of the free device memory. The caller checks the required compute
    capability before this call allocates memory.
    """
    cupy = cupy_library()
    product, dtype = Product.of(point), str(point["dtype"])
    kind = FORMATS[dtype]
    stored, result = kind.storage, FORMATS[kind.result].storage
    m, n, k = (round_up(size, ALIGNMENT // kind.itemsize) for size in (product.m, product.n, product.k))
    padded = Product(m, n, k, product.batch)
    require_device_memory(padded.bytes(kind.itemsize, kind.result_itemsize) + workspace(padded))
    rng = point.rng()
    a = cupy.empty((product.batch, m, k), stored)
    b = cupy.empty((product.batch, n, k) if b_by_columns else (product.batch, k, n), stored)
    c = cupy.empty((product.batch, m, n), result)
    work_memory = cupy.empty(workspace(padded), "uint8")

    def load() -> Values:
        used_b = (product.n, product.k) if b_by_columns else (product.k, product.n)
        host_a = draw_padded(rng, a.shape, dtype, product.m, product.k)
        host_b = draw_padded(rng, b.shape, dtype, *used_b)
        a.set(host_a)
        b.set(host_b)
        by_rows = host_b.swapaxes(1, 2) if b_by_columns else host_b
        used = host_a[:, : product.m, : product.k], by_rows[:, : product.k, : product.n]
        return lambda: (from_storage(used[0], dtype), from_storage(used[1], dtype))

    run_on = bind(MatmulOperands(product, dtype, a, b, c, work_memory))
    work = Work(product.flops, product.bytes(kind.itemsize, kind.result_itemsize), unit_kind=unit_kind)
    return product_task(product, dtype, run_on, load, c, kind.result, work, rng, work_memory)


def product_task(
    product: Product,
    dtype: str,
    run_on: Callable[[int], object],
    load: Callable[[], Values],
    c: Any,
    result: str,
    work: Work,
    rng: np.random.Generator,
    work_memory: Any,
) -> Task:
    """Return the task of `run_on(stream)`, which enqueues the product of the matrices that `load` writes.

    `c` is the device array of the padded result, in the format `result`. `load` writes new random matrices to the
    device, and returns the function that returns their exact values without padding; its first result is used by the
    first check only. `work_memory` is poisoned like C.
    """
    loaded = [load()]

    def run(stream: int = 0) -> None:
        run_on(stream)

    def poison() -> None:
        for array in (c, work_memory):
            if array.nbytes:  # an empty array may have no valid address
                array.data.memset(poison_byte(result), array.nbytes)
        synchronize()

    def verify() -> Verification:
        values = loaded.pop() if loaded else load()
        poison()
        run()
        synchronize()
        found = from_storage(c[:, : product.m, : product.n].get(), result)
        return verify_product(*values(), found, dtype, rng)

    output = Output(read=lambda: (c[:, : product.m, : product.n],), poison=poison)
    return Task(run=run, verify=verify, work=work, output=output)


def draw_padded(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, rows: int, columns: int) -> Any:
    """Return random matrices of shape (batch, …, …), with zeros beyond the given rows and columns."""
    drawn = draw(rng, shape, dtype)
    drawn[:, rows:] = 0
    drawn[:, :, columns:] = 0
    return drawn


def round_up(size: int, multiple: int) -> int:
    """Return the smallest multiple that is not below the size."""
    return -(-size // multiple) * multiple
