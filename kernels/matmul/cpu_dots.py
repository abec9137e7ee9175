"""C = A·B of int8 and bfloat16 by our own blocked Numba kernel with dot-product instructions, on all cores.

Bound: 2·m·n·k operations by the units that multiply; `peak-arith` measures that bound beside it. The cut into blocks is
that of `kernels.matmul.cpu_numba`, whose element is here a word of 32 bits: four int8 or two bfloat16 that follow each
other along k, which an instruction multiplies with another such word and adds to a sum of 32 bits. Packing puts them
side by side, with zeros beyond the end of k.

Measured share of the bound on one core of an AMD Zen 4 (virtual machine), at n=1024 and 2048: 0.84 and 0.82 in int8,
0.77 and 0.81 in bfloat16; oneDNN reaches 0.89 and 0.92, 0.87 and 0.89 beside it. Packing B by vectors (`pack_words`)
rather than by the compiler brought int8 there from 0.53 and 0.58.

`vpdpbusd` multiplies unsigned numbers with signed ones. The a of int8 are packed as a + 128, which flips their highest
bit, and since Σ (a + 128)·b = Σ a·b + 128·Σ b, the sums of column j begin with −128·Σ b of that column. That is exact,
because all is computed modulo 2³², and the result is below 2³¹ for k < 131,072. `vpdpwssd` on numbers widened to 16
bits would need no correction, and twice the instructions and bytes.

bfloat16 is summed in float32 over all of k, in a buffer beside C, and rounded once. On ARM the kernel uses `sdot` and
`bfdot`, of which the instructions on matrices do twice the work; it has never run there. On a CPU with AMX it uses
vectors, too, and its share of the ceiling, which is that of the tiles, is an eighth at most if it has two such units.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from kernels.caches import cache_bytes
from kernels.dots import dot_columns, dot_rows, dot_tile, find_dot, multiply_dot_tile, pack_words, word_at
from kernels.matmul.cpu_numba import BLOCKS_PER_THREAD, even
from kernels.matmul.narrow_task import narrow_task
from kernels.matmul.shapes import Product
from kernels.threads import compiled, parallel, take_next, thread_count
from profiling.benchmark import Skip, Task
from profiling.records.point import Point

WORD_BYTES = 4
SIGN_BITS = 0x80808080


@compiled
def pack_b(b: Any, packed: Any, start: Any, n: int, source: int, deep: int, width: int, at: int, flip: int) -> None:
    """Pack `width` columns of `deep` numbers as rows of NR words at packed[at·words:], and where their sums begin."""
    nr, group = dot_columns(start), WORD_BYTES // b.itemsize
    words = (deep + group - 1) // group
    target = at * words
    start[at : at + nr] = 0
    whole = deep // group if width == nr else 0
    for word in range(whole):
        pack_words(b, source + word * group * n, n, packed, target + word * nr, start, at)
    packed[target + nr * whole : target + nr * words] = 0
    for word in range(whole, words):
        row, place = source + word * group * n, target + word * nr
        for e in range(min(group, deep - word * group)):
            shift = np.uint32(8 * b.itemsize * e)
            for j in range(width):
                packed[place + j] |= np.uint32(b[row + e * n + j]) << shift
            if flip != 0:
                for j in range(width):
                    # Flipping the highest bit and taking 128 off gives the signed number of these 8 bits.
                    start[at + j] -= 128 * (np.int32(b[row + e * n + j] ^ 0x80) - 128)


@compiled
def pack_a(a: Any, packed: Any, c: Any, k: int, first: int, rows: int, deep: int, flip: int) -> None:
    """Pack panels of MR rows as columns of MR words, with zeros beyond the matrix, turning the bits of `flip`."""
    mr, group, turned = dot_rows(c), WORD_BYTES // a.itemsize, np.uint32(flip)
    whole, words = deep // group, (deep + group - 1) // group
    for panel in range(0, rows, mr):
        for i in range(mr):
            target, source = panel * words + i, first + (panel + i) * k
            if panel + i >= rows:
                for word in range(words):
                    packed[target + word * mr] = 0
                continue
            for word in range(whole):
                packed[target + word * mr] = word_at(a, source + word * group) ^ turned
            if whole < words:
                last = np.uint32(0)
                for e in range(deep - whole * group):
                    last |= np.uint32(a[source + whole * group + e]) << np.uint32(8 * a.itemsize * e)
                packed[target + whole * mr] = last ^ turned


@compiled
def multiply_block(
    packed_a: Any, packed_b: Any, start: Any, c: Any, scratch: Any, n: int, first: int, rows: int, j0: int,
    columns: int, words: int,
) -> None:  # fmt: skip
    """Add a block of A times columns [j0, j0 + columns) of the slab of B to C, whose tile at j0 begins at c[first]."""
    mr, nr = dot_rows(c), dot_columns(c)
    for j in range(0, columns, nr):
        for i in range(0, rows, mr):
            height, width = min(mr, rows - i), min(nr, columns - j)
            at_b, place = (j0 + j) * words, first + i * n + j
            if height == mr and width == nr:
                multiply_dot_tile(words, packed_a, i * words, packed_b, at_b, c, place, n, start, j0 + j)
            else:
                scratch[:] = 0
                multiply_dot_tile(words, packed_a, i * words, packed_b, at_b, scratch, 0, nr, start, j0 + j)
                for y in range(height):
                    for x in range(width):
                        c[place + y * n + x] += scratch[y * nr + x]


@parallel
def multiply_all(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, kc: int, mc: int, nc: int, share: int, flip: int,
    packed_a: Any, packed_b: Any, start: Any, scratch: Any, counter: Any,
) -> None:  # fmt: skip
    """Multiply matrix after matrix, all threads at each; kc counts numbers, not words."""
    nr, group = dot_columns(c), WORD_BYTES // a.itemsize
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
                    pack_b(b, packed_b, start, n, source, deep, min(nr, columns - j), j, flip)
                counter[0] = 0
                for thread in prange(len(packed_a)):
                    task = take_next(counter)
                    while task < blocks * shares:
                        i0, j = task // shares * mc, task % shares * share
                        rows, wide, i = min(mc, m - i0), min(share, columns - j), matrix * m + i0
                        first = i * n + j0 + j
                        if k0 == 0:
                            for y in range(rows):
                                c[first + y * n : first + y * n + wide] = 0
                        pack_a(a, packed_a[thread], c, k, i * k + k0, rows, deep, flip)
                        multiply_block(
                            packed_a[thread], packed_b, start, c, scratch[thread], n, first, rows, j, wide, words
                        )  # fmt: skip
                        task = take_next(counter)


@parallel
def round_to_bfloat16(bits: Any, rounded: Any) -> None:
    """Round float32, given as its bits, to the nearest bfloat16, ties to even; infinity stays, NaN stays NaN."""
    for i in prange(len(bits)):
        x = bits[i]
        if (x & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
            rounded[i] = 0x7FC0
        else:
            rounded[i] = (x + np.uint32(0x7FFF) + ((x >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)


class Multiplier:
    """The kernel for one product and type, with its buffers; Skip where this CPU has no instruction for the type."""

    def __init__(self, product: Product, dtype: str, threads: int) -> None:
        dot = find_dot(dtype, matrix=False)
        if dot is None:
            raise Skip(f"this CPU has no dot-product instruction for {dtype} that is known here")
        mr, nr = dot_tile(dot)
        m, n, group = product.m, product.n, dot.products
        words = even(-(-product.k // group), cache_bytes(1) // (nr * WORD_BYTES), 1)
        mc_in_cache = cache_bytes(2) // 2 // (words * WORD_BYTES)
        mc = even(m, min(mc_in_cache, max(mr, m // (BLOCKS_PER_THREAD * threads))), mr)
        nc = even(n, cache_bytes(3) // 2 // (words * WORD_BYTES), nr)
        share = even(nc, -(-nc // -(-BLOCKS_PER_THREAD * threads // -(-m // mc))), nr)
        kept = np.dtype(np.int32 if dtype == "int8" else np.float32)
        self.sums = None if dtype == "int8" else np.empty(product.batch * m * n, kept)
        self.arguments = (
            *(m, n, product.k, words * group, mc, nc, share, SIGN_BITS if dot.unsigned else 0),
            np.empty((threads, mc * words), np.uint32),
            np.empty(nc * words, np.uint32),
            np.empty(nc, kept),
            np.empty((threads, mr * nr), kept),
            np.zeros(1, np.int64),
        )

    def __call__(self, a: Any, b: Any, c: Any) -> None:
        """Compute C = A·B for contiguous arrays as `kernels.matmul.formats` stores them."""
        unsigned = np.uint8 if a.itemsize == 1 else np.uint16
        sums = c.reshape(-1) if self.sums is None else self.sums
        multiply_all(a.reshape(-1).view(unsigned), b.reshape(-1).view(unsigned), sums, *self.arguments)
        if self.sums is not None:
            round_to_bfloat16(self.sums.view(np.uint32), c.reshape(-1))


def prepare(point: Point) -> Task:
    """Prepare random matrices, which the kernel above multiplies on all threads."""
    return narrow_task(point, lambda product, dtype: Multiplier(product, dtype, thread_count()))
