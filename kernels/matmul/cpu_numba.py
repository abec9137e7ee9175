"""C = A·B of float32 or float64 by a blocked Numba kernel on all cores.

Algorithm: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008. Bound:
2·m·n·k FLOP in the FMA units. The microkernel (`fma_microkernel.multiply_tile`) keeps an MR×NR tile of C in vector
registers. The blocking keeps its operands in the caches:

- A panel of B, kc×NR, and a panel of A, MR×kc, stream from L2: kc·NR·itemsize ≤ L2/10. A step of MR·2 FMAs needs two
  vectors of B, which L2 can deliver in time. Deeper panels need fewer passes over C: with panels that fit in L1 there
  are three times as many passes on Zen 4, and the product is 5–6 % slower.
- A block of A, mc×kc, stays in L2 while all panels of B are multiplied: mc·kc·itemsize ≤ L2/2.
- A slab of B, kc×nc, stays in the last-level cache while all blocks of A are multiplied: kc·nc·itemsize ≤ half of one
  last-level cache. While a panel is multiplied, the microkernel prefetches the next one, one line per step.

All threads pack A and B into the order in which the microkernel reads them: B once, and A once per slab. Blocks of A
are scheduled dynamically, several per thread, so that all threads finish at about the same time. If A has too few rows
for that, the slab is divided as well.

If all rows of A are one block, a packed slab would be read only once. Then each thread multiplies separately, complete
matrices of a batch or an equal part of the columns, and packs each panel of B just before its use; the panel is
prefetched during the previous multiplication. `accelbench.kernels.matmul.narrow` handles products that are not wider
than a tile.

Measured, alternating with OpenBLAS 0.3.31, on one core of an AMD Zen 4 at n=1024, 2048 and 4096: with AVX-512 1.08× its
rate in float32 and 1.00–1.02× in float64; with AVX2 1.03–1.06× and 1.13–1.22×; 1.3× for 35×700×2048. The microkernel
alone, with panels from L2, reaches 0.97 of the bound. Packing takes 2 % of the time at n=2048.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.arrays import even
from accelbench.kernels.lib.cpu.caches import cache_bytes
from accelbench.kernels.lib.cpu.fma_microkernel import multiply_half_tile, multiply_tile
from accelbench.kernels.lib.cpu.simd import LINE_BYTES, lanes, tile_columns, tile_rows, tile_shape
from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count
from accelbench.kernels.matmul.cpu_task import cpu_task
from accelbench.kernels.matmul.narrow import multiply_narrow
from accelbench.kernels.matmul.packing import pack_a, pack_b
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

BLOCKS_PER_THREAD = 6
"""Minimum blocks of A per thread: the other threads wait for at most a sixth of the work of a delayed thread."""


@dataclass(frozen=True)
class Blocking:
    """Block sizes: rows and columns of a tile, depth along k, rows of a block of A, columns of a slab of B."""

    mr: int
    nr: int
    kc: int
    mc: int
    nc: int
    columns: int
    """Columns of B that a thread multiplies by a block of A."""
    separate: bool
    """Whether each thread multiplies separately and packs its own operands, because all rows of A are one block."""


def blocking(product: Product, itemsize: int, threads: int) -> Blocking:
    """Return block sizes that fit in the caches of this CPU, in equal parts so that no block is small."""
    mr, nr = tile_shape(itemsize)
    kc = panel_depth(product.k, nr, itemsize)
    mc_in_cache = cache_bytes(2) // 2 // (kc * itemsize)
    panels = -(-product.n // nr)
    many = product.batch >= BLOCKS_PER_THREAD * threads
    if product.m <= mc_in_cache and (many or panels >= BLOCKS_PER_THREAD * threads):
        columns = panels if many else panels // threads
        return Blocking(mr, nr, kc, even(product.m, product.m, mr), nr, columns * nr, separate=True)
    fair = product.m // (BLOCKS_PER_THREAD * threads)
    mc = even(product.m, min(mc_in_cache, max(mr, fair)), mr)
    nc = even(product.n, cache_bytes(3) // 2 // (kc * itemsize), nr)
    shares = -(-BLOCKS_PER_THREAD * threads // -(-product.m // mc))
    return Blocking(mr, nr, kc, mc, nc, even(nc, -(-nc // shares), nr), separate=False)


def panel_depth(k: int, nr: int, itemsize: int) -> int:
    """Return the depth of panels with NR columns, equal parts of k: a panel fits in L1 or in a tenth of L2."""
    deepest = max(cache_bytes(1), cache_bytes(2) // 10) // (nr * itemsize)
    return min(k, even(k, deepest, lanes(itemsize)))


def whole_lines(rows: int, columns: int, dtype: Any) -> Any:
    """Return an array of `rows` rows and at least `columns` columns, with rows aligned to cache lines."""
    per_line = LINE_BYTES // np.dtype(dtype).itemsize
    columns = even(columns, columns, per_line)
    memory = np.empty(rows * columns + per_line, dtype)
    first = -memory.ctypes.data % LINE_BYTES // memory.itemsize
    return memory[first : first + rows * columns].reshape(rows, columns)


@compiled
def copy_part(
    source: Any, first: int, stride: int, target: Any, place: int, spacing: int, rows: int, columns: int
) -> None:
    """Copy rows that are `stride` elements apart in the source to rows `spacing` elements apart in the target."""
    for y in range(rows):
        for x in range(columns):
            target[place + y * spacing + x] = source[first + y * stride + x]


@compiled
def multiply_block(
    packed_a: Any, packed_b: Any, first_b: int, c: Any, scratch: Any, n: int, first: int, rows: int, columns: int,
    depth: int, begins: bool, later: Any, ahead: int, ahead_shift: int, ahead_step: int,
) -> None:  # fmt: skip
    """Add a block of A times panels of B to C, tile by tile; tiles that exceed C are computed in `scratch` and copied.

    While a panel is multiplied, the next one is prefetched: step d of tile i prefetches `later` at
    ahead + i·ahead_shift + d·ahead_step, where `ahead` advances with the panel.
    """
    mr, nr = tile_rows(c), tile_columns(c)
    for j in range(0, columns, nr):
        width = min(nr, columns - j)
        for i in range(0, rows, mr):
            height = min(mr, rows - i)
            start = first + i * n + j
            at_a, at_b, soon = i * depth, first_b + j * depth, ahead + j * depth + i // mr * ahead_shift
            fits = height == mr and width == nr
            target, place, stride = (c, start, n) if fits else (scratch, 0, nr)
            if not (fits or begins):
                copy_part(c, start, n, scratch, 0, nr, height, width)
            if height > mr // 2:
                multiply_tile(
                    depth, packed_a, at_a, packed_b, at_b, target, place, stride, begins, later, soon, ahead_step
                )
            else:
                multiply_half_tile(
                    depth, packed_a, at_a, packed_b, at_b, target, place, stride, begins, later, soon, ahead_step
                )
            if not fits:
                copy_part(scratch, 0, nr, c, start, n, height, width)


@compiled
def pack_block(a: Any, first: int, k: int, rows: int, depth: int, packed: Any) -> None:
    """Pack a block of A into panels of MR rows (MR/2 if at most as many are left)."""
    mr = tile_rows(a)
    for i in range(0, rows, mr):
        height = min(mr, rows - i)
        pack_a(a, first + i * k, k, height, depth, packed, i * depth, mr if height > mr // 2 else mr // 2)


@parallel
def multiply_together(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, kc: int, mc: int, nc: int, share: int,
    packed_a: Any, packed_b: Any, scratch: Any, counter: Any,
) -> None:  # fmt: skip
    """Multiply the matrices one after the other, each by all threads."""
    mr, nr = tile_rows(c), tile_columns(c)
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
                    pack_b(b, packed_b[0], j * depth, n, source, depth)
                shares = (columns + share - 1) // share
                counter[0] = 0
                for thread in prange(threads):
                    task = take_next(counter)
                    while task < blocks * shares:
                        i0, j = task // shares * mc, task % shares * share
                        i = matrix * m + i0
                        rows = min(mc, m - i0)
                        part = nr * mr // rows + 1
                        pack_block(a, i * k + k0, k, rows, depth, packed_a[thread])
                        multiply_block(
                            packed_a[thread], packed_b[0], j * depth, c, scratch[thread], n, i * n + j0 + j, rows,
                            min(share, columns - j), depth, k0 == 0,
                            packed_b[0], (j + nr) * depth, part * depth, part,
                        )  # fmt: skip
                        task = take_next(counter)


@parallel
def multiply_separately(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, kc: int, mc: int, nc: int, share: int,
    packed_a: Any, packed_b: Any, scratch: Any, counter: Any,
) -> None:  # fmt: skip
    """Multiply one matrix per thread at a time, or `share` of its columns; all rows of A are one block."""
    mr, nr = tile_rows(c), tile_columns(c)
    part = nr * mr // m + 1
    shares = (n + share - 1) // share
    tasks = len(c) // (m * n) * shares
    counter[0] = 0
    for thread in prange(len(packed_a)):
        task = take_next(counter)
        while task < tasks:
            matrix, first = task // shares, task % shares * share
            for k0 in range(0, k, kc):
                depth = min(kc, k - k0)
                pack_block(a, matrix * m * k + k0, k, m, depth, packed_a[thread])
                for j in range(first, min(first + share, n), nr):
                    source = (matrix * k + k0) * n + j
                    pack_b(b, packed_b[thread], 0, n, source, depth)
                    multiply_block(
                        packed_a[thread], packed_b[thread], 0, c, scratch[thread], n, matrix * m * n + j, m,
                        min(nr, n - j), depth, k0 == 0, b, source + nr, part, n,
                    )  # fmt: skip
            task = take_next(counter)


class FmaMultiplier:
    """Matrix product for one shape and type, with its buffers."""

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
            packed_a = whole_lines(threads, cut.mc * cut.kc + lanes(itemsize), dtype)
            packed_b = whole_lines(threads if cut.separate else 1, cut.nc * cut.kc, dtype)
            scratch = whole_lines(threads, cut.mr * cut.nr, dtype)
            self.kernel = multiply_separately if cut.separate else multiply_together
            self.arguments += (cut.kc, cut.mc, cut.nc, cut.columns, packed_a, packed_b, scratch, counter)

    def __call__(self, a: Any, b: Any, c: Any) -> None:
        """Compute C = A·B for contiguous arrays of the product's sizes."""
        self.kernel(a.reshape(-1), b.reshape(-1), c.reshape(-1), *self.arguments)


def prepare(point: Point) -> Task:
    """Return the task of multiplying random normal matrices by `FmaMultiplier` on all threads."""

    def multiplier(product: Product, dtype: Any) -> FmaMultiplier:
        return FmaMultiplier(product, dtype, thread_count())

    return cpu_task(point, multiplier)
