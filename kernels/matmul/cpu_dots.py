"""C = A·B of int8 or bfloat16 by a blocked Numba kernel with dot-product instructions, on all cores.

Bound: 2·m·n·k operations in the multiplying units; `peak-arith` measures this bound in the same run. The blocking is
that of `accelbench.kernels.matmul.cpu_numba`, with 32-bit words as elements: four int8 or two bfloat16 that are
adjacent along k. An instruction multiplies two words element by element and adds the products to a 32-bit sum. Packing
forms the words, padded with zeros at the end of k.

Measured, alternating with oneDNN, on one core of an AMD Zen 4 virtual machine at n=1024, 2048 and 4096: 1.03×, 1.00×
and 0.98× its rate in int8, 1.07×, 1.05× and 1.13× in bfloat16. Earlier versions had 0.86–0.95×; the difference came
from panels of B deeper than L1, packing of A by vectors, writing C once, and prefetching its lines one per step. Before
the last step the share of the bound was 0.86 and 0.91 in int8 at n=1024 and 2048, 0.90 and 0.92 in bfloat16.

`vpdpbusd` multiplies unsigned by signed numbers. So int8 elements of A are packed as a + 128, by inverting their
highest bit. Because Σ (a + 128)·b = Σ a·b + 128·Σ b, the sums of a column are initialised with −128·Σ b of that column.
This is exact: the arithmetic is modulo 2³², and the result is below 2³¹ for k < 131,072. `vpdpwssd` with 16-bit numbers
needs no correction, but twice the instructions and bytes.

bfloat16 is summed in float32 over all of k and rounded once, in registers. If k exceeds the depth of a panel, the sums
are kept in a separate buffer between the parts of k, tile by tile, so that C is written once.

On ARM the kernel uses `sdot` and `bfdot`; matrix instructions, which it does not use, would do twice the work. Its
results are correct under QEMU; its speed is unknown. On a CPU with AMX it uses vectors as well, so its share of the
peak measured with tiles is at most an eighth (with two vector units).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.arrays import even
from accelbench.kernels.lib.cpu.caches import cache_bytes
from accelbench.kernels.lib.cpu.dot_instructions import find_dot
from accelbench.kernels.lib.cpu.dot_microkernel import (
    WORD_BYTES,
    dot_columns,
    dot_rows,
    dot_tile,
    multiply_dot_tile,
    pack_words,
)
from accelbench.kernels.lib.cpu.simd import lanes
from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count
from accelbench.kernels.lib.formats import FORMATS
from accelbench.kernels.matmul.cpu_numba import BLOCKS_PER_THREAD, copy_part, panel_depth, whole_lines
from accelbench.kernels.matmul.narrow_task import narrow_task
from accelbench.kernels.matmul.packing import pack_a
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point

SIGN_BITS = 0x80808080


@compiled
def pack_panel(
    b: Any, packed: Any, offsets: Any, edges: Any, n: int, source: int, deep: int, width: int, at: int
) -> None:
    """Pack `width` columns of `deep` numbers as rows of NR words at packed[at·words:], padded with zeros.

    Incomplete rows of words are first copied to edges[at·group:], which is padded with zeros.
    """
    nr, group = dot_columns(offsets), WORD_BYTES // b.itemsize
    words = (deep + group - 1) // group
    whole = deep // group if width == nr else 0
    offsets[at : at + nr] = 0
    if whole > 0:
        pack_words(b, source, n, packed, at * words, whole, offsets, at)
    for word in range(whole, words):
        edges[at * group : (at + nr) * group] = 0
        copy_part(b, source + word * group * n, n, edges, at * group, nr, min(group, deep - word * group), width)
        pack_words(edges, at * group, nr, packed, at * words + word * nr, 1, offsets, at)


@compiled
def pack_block(a: Any, first: int, k: int, rows: int, deep: int, packed: Any, sums: Any, flip: int) -> None:
    """Pack panels of MR rows (MR/2 if at most as many are left) as columns of words, and invert the bits of `flip`.

    An incomplete word at the end of k is padded with zeros.
    """
    mr, group, turned = dot_rows(sums), WORD_BYTES // a.itemsize, np.uint32(flip)
    whole, words = deep // group, (deep + group - 1) // group
    for i in range(0, rows, mr):
        source, target, height = first + i * k, i * words, min(mr, rows - i)
        wide = mr if height > mr // 2 else mr // 2
        pack_a(a, source, k, height, whole, packed, target, wide)
        if whole < words:
            for y in range(height):
                last = np.uint32(0)
                for e in range(deep - whole * group):
                    number = np.uint32(a[source + y * k + whole * group + e])
                    last |= number << np.uint32(8 * a.itemsize * e)
                packed[target + whole * wide + y] = last
        if flip != 0:
            panel = packed[target : target + words * wide]
            for x in range(len(panel)):  # LLVM vectorises the loop only if its start cannot be negative
                panel[x] ^= turned


@compiled
def multiply_block(
    packed_a: Any, packed_b: Any, first_b: int, offsets: Any, offset: int, held: Any, first_held: int, held_rows: int,
    c: Any, scratch: Any, n: int, first: int, rows: int, columns: int, words: int, begins: bool, ends: bool,
) -> None:  # fmt: skip
    """Multiply a block of A by panels of B, tile by tile; tiles that exceed C are computed in `scratch` and copied.

    While a panel is multiplied, the next one is prefetched in equal parts by the steps of each tile. `held` keeps the
    sums between the parts of k, tile by tile, with `held_rows` rows for a panel.
    """
    mr, nr = dot_rows(held), dot_columns(held)
    part = nr * mr // rows + 1
    for j in range(0, columns, nr):
        width = min(nr, columns - j)
        at_b = first_b + j * words
        for i in range(0, rows, mr):
            height = min(mr, rows - i)
            start = first + i * n + j
            at_held = first_held + j * held_rows + i * nr
            soon = at_b + (nr + i // mr * part) * words
            fits = height == mr and width == nr
            target, place, stride = (c, start, n) if fits else (scratch, 0, nr)
            multiply_dot_tile(
                height, words, packed_a, i * words, packed_b, at_b, soon, part, offsets, offset + j, held, at_held,
                target, place, stride, begins, ends,
            )  # fmt: skip
            if ends and not fits:
                copy_part(scratch, 0, nr, c, start, n, height, width)


@parallel
def multiply_all(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, kc: int, mc: int, nc: int, share: int, flip: int,
    packed_a: Any, packed_b: Any, offsets: Any, edges: Any, held: Any, held_rows: int, scratch: Any, counter: Any,
) -> None:  # fmt: skip
    """Multiply the matrices one after the other, each by all threads; the unit of `kc` is numbers."""
    nr, group = dot_columns(held), WORD_BYTES // a.itemsize
    blocks = (m + mc - 1) // mc
    for matrix in range(len(c) // (m * n)):
        for j0 in range(0, n, nc):
            columns = min(nc, n - j0)
            shares = (columns + share - 1) // share
            for k0 in range(0, k, kc):
                deep = min(kc, k - k0)
                words = (deep + group - 1) // group
                for panel in prange((columns + nr - 1) // nr):
                    j = panel * nr
                    source = (matrix * k + k0) * n + j0 + j
                    pack_panel(b, packed_b[0], offsets, edges, n, source, deep, min(nr, columns - j), j)
                counter[0] = 0
                for thread in prange(len(packed_a)):
                    task = take_next(counter)
                    while task < blocks * shares:
                        i0, j = task // shares * mc, task % shares * share
                        rows, wide, i = min(mc, m - i0), min(share, columns - j), matrix * m + i0
                        pack_block(a, i * k + k0, k, rows, deep, packed_a[thread], held, flip)
                        multiply_block(
                            packed_a[thread], packed_b[0], j * words, offsets, j, held, j * held_rows + i0 * nr,
                            held_rows, c, scratch[thread], n, i * n + j0 + j, rows, wide, words,
                            k0 == 0, k0 + kc >= k,
                        )  # fmt: skip
                        task = take_next(counter)


class DotMultiplier:
    """Matrix product for one shape and type, with its buffers; Skip if this CPU has no instruction for the type."""

    def __init__(self, product: Product, dtype: str, threads: int) -> None:
        dot = find_dot(dtype, matrix=False)
        if dot is None:
            raise Skip(f"this CPU has no supported dot-product instruction for {dtype}")
        mr, nr = dot_tile(dot)
        m, n, group = product.m, product.n, dot.products
        all_words = -(-product.k // group)
        words = panel_depth(all_words, nr, WORD_BYTES)
        mc_in_cache = cache_bytes(2) // 2 // (words * WORD_BYTES)
        mc = even(m, min(mc_in_cache, max(mr, m // (BLOCKS_PER_THREAD * threads))), mr)
        nc = even(n, cache_bytes(3) // 2 // (words * WORD_BYTES), nr)
        share = even(nc, -(-nc // -(-BLOCKS_PER_THREAD * threads // -(-m // mc))), nr)
        sums = np.dtype(np.int32 if dtype == "int8" else np.float32)
        held_rows = even(m, m, mr) if words < all_words else 0
        self.numbers, self.results = (np.dtype(f"u{FORMATS[dtype].itemsize}"), FORMATS[FORMATS[dtype].result].storage)
        self.arguments = (
            *(m, n, product.k, words * group, mc, nc, share, SIGN_BITS if dot.unsigned else 0),
            whole_lines(threads, mc * words + lanes(WORD_BYTES), np.uint32),
            whole_lines(1, nc * words, np.uint32),
            np.empty(nc, sums),
            np.empty(nc * group, self.numbers),
            whole_lines(1, nc * held_rows + mr * nr, sums)[0],
            held_rows,
            whole_lines(threads, mr * nr, self.results),
            np.zeros(1, np.int64),
        )

    def __call__(self, a: Any, b: Any, c: Any) -> None:
        """Compute C = A·B for contiguous arrays in the storage form of `accelbench.kernels.lib.formats`."""
        a, b = (x.reshape(-1).view(self.numbers) for x in (a, b))
        multiply_all(a, b, c.reshape(-1), *self.arguments)


def prepare(point: Point) -> Task:
    """Return the task of multiplying random matrices by `DotMultiplier` on all threads."""
    return narrow_task(point, lambda product, dtype: DotMultiplier(product, dtype, thread_count()))
