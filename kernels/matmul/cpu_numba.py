"""C = A·B by our own blocked Numba kernel on all cores (Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication", ACM TOMS 34(3), 2008).

Bound: 2·m·n·k floating-point operations by the FMA units. The inner kernel (`kernels.simd.multiply_tile`) keeps an
MR×NR tile of C in vector registers; what remains is to have its operands always in the nearest cache:

- a panel of B, kc×NR, fits L1 while all tiles of a block of A pass by: kc·NR·itemsize ≤ L1. What A and C push out of it
  comes back from L2, which has the time: a step of 6 cycles needs 64 bytes of B. Half of L1 would add a pass over C for
  each that is saved here, and is 3 % slower on Zen 3,
- the block of A, mc×kc, stays in L2 while all panels of B pass by: mc·kc·itemsize ≤ half of L2,
- the slab of B, kc×nc, stays in the last-level cache while all blocks of A pass by: kc·nc·itemsize ≤ half of one.

A and B are copied ("packed") into the order in which the inner kernel reads them, B once and A once per slab, by all
threads; blocks of A are handed out one by one, several per thread, so that all threads end together. Where A has too
few rows for that, the slab is shared out too. Of a large batch, each thread multiplies whole matrices by itself, with
its part of the last-level cache. A product that is no wider than a tile goes to `kernels.matmul.narrow`.

Measured share of the bound at n=2048 on two cores of an AMD Zen 3: 0.80 to 0.84 in float32, 0.84 to 0.86 in float64;
the inner kernel alone, its operands in L1, reaches 0.99 and 0.97. Against OpenBLAS 0.3.31 on one core, in float32:
0.9 of its rate for 2048×1024×1024 and 24 products of 512×512×64, 0.7 for 35×700×2048 and for 7680×64×2560.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange

from kernels.caches import cache_bytes
from kernels.matmul.cpu_task import cpu_task
from kernels.matmul.narrow import multiply_narrow
from kernels.matmul.shapes import Product
from kernels.simd import multiply_tile, tile_columns, tile_rows, tile_shape
from kernels.threads import compiled, parallel, take_next, thread_count
from profiling.benchmark import Task
from profiling.records.point import Point

BLOCKS_PER_THREAD = 6
"""The fewest blocks of A per thread: one that is held up leaves at most a sixth of its part to wait for."""


@dataclass(frozen=True)
class Blocking:
    """The cut of the three loops: rows and columns of a tile, depth, rows of a block of A, columns of a slab of B."""

    mr: int
    nr: int
    kc: int
    mc: int
    nc: int
    columns: int
    """The columns of the slab that a thread multiplies with a block of A: all unless there are too few blocks."""
    alone: bool
    """Whether each thread multiplies whole matrices of the batch by itself."""


def blocking(product: Product, itemsize: int, threads: int) -> Blocking:
    """Return the blocks that the caches of this CPU hold, cut evenly so that none is left small."""
    mr, nr = tile_shape(itemsize)
    alone = product.batch >= BLOCKS_PER_THREAD * threads
    kc = even(product.k, cache_bytes(1) // (nr * itemsize), 1)
    mc_in_cache = cache_bytes(2) // 2 // (kc * itemsize)
    fair = product.m if alone else product.m // (BLOCKS_PER_THREAD * threads)
    mc = even(product.m, min(mc_in_cache, max(mr, fair)), mr)
    nc = even(product.n, cache_bytes(3) // (2 * threads if alone else 2) // (kc * itemsize), nr)
    shares = -(-BLOCKS_PER_THREAD * threads // -(-product.m // mc))
    columns = nc if alone else even(nc, -(-nc // shares), nr)
    return Blocking(mr, nr, kc, mc, nc, columns, alone)


def even(n: int, at_most: int, multiple: int) -> int:
    """Return the size of equal parts of n, each about `at_most` or less, rounded up to a multiple."""
    parts = -(-n // max(at_most, multiple))
    return -(-n // (parts * multiple)) * multiple


@compiled
def pack_b(b: Any, packed: Any, target: int, n: int, source: int, depth: int, width: int) -> None:
    """Pack `width` ≤ NR columns as rows of NR elements, with zeros beyond the matrix."""
    nr = tile_columns(packed)
    for _ in range(depth):
        if width == nr:
            for j in range(nr):
                packed[target + j] = b[source + j]
        else:
            for j in range(nr):
                packed[target + j] = b[source + j] if j < width else 0
        source += n
        target += nr


@compiled
def pack_a(a: Any, packed: Any, k: int, first: int, rows: int, depth: int) -> None:
    """Pack panels of MR rows as columns of MR elements, with zeros beyond the matrix."""
    mr = tile_rows(packed)
    for panel in range(0, rows, mr):
        for i in range(mr):
            target = panel * depth + i
            if panel + i < rows:
                source = first + (panel + i) * k
                for d in range(depth):
                    packed[target + d * mr] = a[source + d]
            else:
                for d in range(depth):
                    packed[target + d * mr] = 0


@compiled
def multiply_block(
    packed_a: Any, packed_b: Any, c: Any, scratch: Any, n: int, first: int, rows: int, columns: int, depth: int
) -> None:
    """Add a block of A times the slab of B to C, tile by tile; tiles that stick out of C go by way of `scratch`."""
    mr, nr = tile_rows(c), tile_columns(c)
    for j in range(0, columns, nr):
        for i in range(0, rows, mr):
            start = first + i * n + j
            height, width = min(mr, rows - i), min(nr, columns - j)
            if height == mr and width == nr:
                multiply_tile(depth, packed_a, i * depth, packed_b, j * depth, c, start, n)
            else:
                scratch[:] = 0
                multiply_tile(depth, packed_a, i * depth, packed_b, j * depth, scratch, 0, nr)
                for y in range(height):
                    for x in range(width):
                        c[start + y * n + x] += scratch[y * nr + x]


@compiled
def do_block(
    a: Any, c: Any, n: int, k: int, a_first: int, c_first: int, rows: int, columns: int, depth: int, begins: bool,
    packed_a: Any, packed_b: Any, scratch: Any,
) -> None:  # fmt: skip
    """Pack one block of A and multiply it; `begins` where C holds no sums yet."""
    if begins:
        for i in range(rows):
            c[c_first + i * n : c_first + i * n + columns] = 0
    pack_a(a, packed_a, k, a_first, rows, depth)
    multiply_block(packed_a, packed_b, c, scratch, n, c_first, rows, columns, depth)


@parallel
def multiply_together(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, kc: int, mc: int, nc: int, share: int,
    packed_a: Any, packed_b: Any, scratch: Any, counter: Any,
) -> None:  # fmt: skip
    """Multiply matrix after matrix, all threads at each."""
    nr = tile_columns(c)
    threads = len(packed_a)
    blocks = (m + mc - 1) // mc
    for matrix in range(len(c) // (m * n)):
        for j0 in range(0, n, nc):
            columns = min(nc, n - j0)
            panels = (columns + nr - 1) // nr
            for k0 in range(0, k, kc):
                depth = min(kc, k - k0)
                for panel in prange(panels):
                    j = panel * nr
                    source = (matrix * k + k0) * n + j0 + j
                    pack_b(b, packed_b[0], j * depth, n, source, depth, min(nr, columns - j))
                shares = (columns + share - 1) // share
                counter[0] = 0
                for thread in prange(threads):
                    task = take_next(counter)
                    while task < blocks * shares:
                        i0, j = task // shares * mc, task % shares * share
                        i = matrix * m + i0
                        do_block(
                            a, c, n, k, i * k + k0, i * n + j0 + j, min(mc, m - i0), min(share, columns - j), depth,
                            k0 == 0, packed_a[thread], packed_b[0][j * depth :], scratch[thread],
                        )  # fmt: skip
                        task = take_next(counter)


@parallel
def multiply_alone(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, kc: int, mc: int, nc: int, share: int,
    packed_a: Any, packed_b: Any, scratch: Any, counter: Any,
) -> None:  # fmt: skip
    """Multiply one matrix at a time in each thread."""
    nr = tile_columns(c)
    batch = len(c) // (m * n)
    counter[0] = 0
    for thread in prange(len(packed_a)):
        matrix = take_next(counter)
        while matrix < batch:
            for j0 in range(0, n, nc):
                columns = min(nc, n - j0)
                for k0 in range(0, k, kc):
                    depth = min(kc, k - k0)
                    for j in range(0, columns, nr):
                        source = (matrix * k + k0) * n + j0 + j
                        pack_b(b, packed_b[thread], j * depth, n, source, depth, min(nr, columns - j))
                    for i0 in range(0, m, mc):
                        i = matrix * m + i0
                        do_block(
                            a, c, n, k, i * k + k0, i * n + j0, min(mc, m - i0), columns, depth, k0 == 0,
                            packed_a[thread], packed_b[thread], scratch[thread],
                        )  # fmt: skip
            matrix = take_next(counter)


class Multiplier:
    """The kernel for one product and type, with its buffers."""

    def __init__(self, product: Product, dtype: Any, threads: int) -> None:
        itemsize = np.dtype(dtype).itemsize
        cut = blocking(product, itemsize, threads)
        counter = np.zeros(1, np.int64)
        self.arguments: tuple[Any, ...] = (product.m, product.n, product.k)
        if product.n <= cut.nr:
            rows = max(1, min(product.m, product.m * product.batch // (BLOCKS_PER_THREAD * threads)))
            piece = even(product.k, cache_bytes(1) // (product.n * itemsize), cut.nr)
            transposed = np.empty(product.batch * product.n * product.k, dtype)
            self.kernel = multiply_narrow
            self.arguments += (rows, piece, transposed, threads, counter)
        else:
            packed_a = np.empty((threads, cut.mc * cut.kc), dtype)
            packed_b = np.empty((threads if cut.alone else 1, cut.nc * cut.kc), dtype)
            scratch = np.empty((threads, cut.mr * cut.nr), dtype)
            self.kernel = multiply_alone if cut.alone else multiply_together
            self.arguments += (cut.kc, cut.mc, cut.nc, cut.columns, packed_a, packed_b, scratch, counter)

    def __call__(self, a: Any, b: Any, c: Any) -> None:
        """Compute C = A·B for contiguous arrays of the product's sizes."""
        self.kernel(a.reshape(-1), b.reshape(-1), c.reshape(-1), *self.arguments)


def prepare(point: Point) -> Task:
    """Prepare random normal matrices, which the kernel above multiplies on all threads."""

    def multiplier(product: Product, dtype: Any) -> Multiplier:
        return Multiplier(product, dtype, thread_count())

    return cpu_task(point, multiplier)
