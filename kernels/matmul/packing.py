"""Packing of A and B into the order in which the microkernel reads them.

Bound: memory; each element is read and written once. B is copied by vectors. A is transposed in squares of w×w elements
for vectors of w elements, with log2(w) shuffles per vector.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.simd import (
    INDEX,
    WORDS,
    index_arguments,
    is_flat,
    lanes_of,
    load,
    pointer_as,
    store,
    tile_columns,
    vector_ir,
    vector_pointer,
)
from accelbench.kernels.lib.cpu.threads import compiled

NARROW = types.uint8, types.uint16
"""Types that store narrow numbers, several of which form a word."""


def _fits(source: types.Type, target: types.Type) -> bool:
    """Return whether the source has the type of the target, or narrow numbers that form its words."""
    same = is_flat(source) and source == target
    return same or (is_flat(source, NARROW) and is_flat(target, WORDS))


def _interleaved(builder: Any, vectors: list[Any]) -> list[Any]:
    """Return vectors of which 2i and 2i + 1 contain the interleaved elements of vectors i and i + count/2."""
    count = len(vectors)
    results = []
    for i in range(count // 2):
        for begin in (0, count // 2):
            order = [half + begin + place for place in range(count // 2) for half in (0, count)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), count), order)
            results.append(builder.shuffle_vector(vectors[i], vectors[i + count // 2], mask))
    return results


@intrinsic
def transpose(
    typing: Any, source: Any, start: Any, stride: Any, last: Any, target: Any, first: Any, spacing: Any
) -> Any:
    """Write the columns of a square of `lanes_of(target)` rows as vectors to target[first:], `spacing` elements apart.

    Row i of the square begins at source[start + min(i, last)·stride]. An element of the target may be a word of
    several numbers of the source. The vectors are written in order; later ones overwrite earlier ones if they overlap.
    """
    if not (_fits(source, target) and index_arguments(start, stride, last, first, spacing)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, begin, step, end, packed, place, distance = arguments
        vector = vector_ir(target.dtype)
        vectors = []
        for i in range(vector.count):
            row = builder.select(builder.icmp_signed("<", INDEX(i), end), INDEX(i), end)
            at = builder.add(begin, builder.mul(row, step))
            pointer = pointer_as(vector, context, builder, source, array, at)
            vectors.append(builder.load(pointer, align=source.dtype.bitwidth // 8))
        width = len(vectors)
        while width > 1:
            vectors, width = _interleaved(builder, vectors), width // 2
        for i, column in enumerate(vectors):
            at = builder.add(place, builder.mul(distance, INDEX(i)))
            pointer = vector_pointer(context, builder, target, packed, at)
            builder.store(column, pointer, align=target.dtype.bitwidth // 8)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, index, index, target, index, index), codegen


@intrinsic
def element_at(typing: Any, source: Any, index: Any, target: Any) -> Any:
    """Return the element of the target's type that starts at source[index], as `transpose` reads it."""
    if not (_fits(source, target) and index_arguments(index)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = pointer_as(vector_ir(target.dtype).element, context, builder, source, *arguments[:2])
        return builder.load(pointer, align=source.dtype.bitwidth // 8)

    return target.dtype(source, types.intp, target), codegen


@compiled
def pack_a(a: Any, first: int, k: int, rows: int, depth: int, packed: Any, target: int, height: int) -> None:
    """Pack `rows` ≤ `height` rows of A as columns of `height` elements; additional rows have unspecified contents.

    An element of the panel is an element of A or a word of several; `first` and `k` are in elements of A.

    Only complete vectors are written. The last vector of a column may extend into the next column, so it is written
    first and then overwritten. Up to one vector is written after the end of the panel.
    """
    lanes, group = lanes_of(packed), packed.itemsize // a.itemsize
    whole = depth // lanes * lanes
    for d in range(0, whole, lanes):
        for i in range((height - 1) // lanes * lanes, -1, -lanes):
            row = min(i, rows - 1)
            transpose(a, first + row * k + d * group, k, rows - 1 - row, packed, target + d * height + i, height)
    for i in range(height):
        source = first + min(i, rows - 1) * k
        for d in range(whole, depth):
            packed[target + d * height + i] = element_at(a, source + d * group, packed)


@compiled
def pack_b(b: Any, packed: Any, target: int, n: int, source: int, depth: int) -> None:
    """Pack a panel of B as rows of NR elements; columns beyond the matrix have unspecified contents."""
    nr, lanes = tile_columns(packed), lanes_of(packed)
    for _ in range(depth):
        if source + nr <= len(b):
            for j in range(0, nr, lanes):
                store(packed, target + j, load(b, source + j))
        else:
            for j in range(nr):
                packed[target + j] = b[min(source + j, len(b) - 1)]
        source += n
        target += nr
