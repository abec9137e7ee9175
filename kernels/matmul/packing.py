"""Copying A and B into the order in which the inner kernel of the matrix product reads them.

Bound: memory, which each element leaves and enters once. B is copied by whole vectors. A is transposed on its way:
squares of as many rows as a vector has elements, log2 of that many passes of shuffles for each vector.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.simd import (
    INDEX,
    index_arguments,
    is_flat,
    lanes_of,
    load,
    store,
    tile_columns,
    vector_ir,
    vector_pointer,
)
from kernels.threads import compiled


def _interleaved(builder: Any, vectors: list[Any]) -> list[Any]:
    """Return vectors 2i and 2i+1 that hold the elements of vectors i and i + count/2 in turns."""
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
    """Write the columns of a square of `lanes_of(source)` rows as vectors, `spacing` apart from target[first] on.

    Row i of the square begins at source[start + min(i, last)·stride]. The vectors are written in order, so that where
    they overlap the later one stays.
    """
    flat = is_flat(source) and source == target
    if not (flat and index_arguments(start, stride, last, first, spacing)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, begin, step, end, packed, place, distance = arguments
        align = source.dtype.bitwidth // 8
        vectors = []
        for i in range(vector_ir(source.dtype).count):
            row = builder.select(builder.icmp_signed("<", INDEX(i), end), INDEX(i), end)
            pointer = vector_pointer(context, builder, source, array, builder.add(begin, builder.mul(row, step)))
            vectors.append(builder.load(pointer, align=align))
        width = len(vectors)
        while width > 1:
            vectors, width = _interleaved(builder, vectors), width // 2
        for i, vector in enumerate(vectors):
            at = builder.add(place, builder.mul(distance, INDEX(i)))
            builder.store(vector, vector_pointer(context, builder, target, packed, at), align=align)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, index, index, target, index, index), codegen


@compiled
def pack_a(a: Any, first: int, k: int, rows: int, depth: int, packed: Any, target: int, height: int) -> None:
    """Pack `rows` ≤ `height` rows as columns of `height` elements; what lies in the rows beyond is not used.

    A column ends within a vector, which is written whole: the next column covers what is too much, so the last vector
    of a column goes first. Past the panel up to a vector is written.
    """
    lanes = lanes_of(a)
    whole = depth // lanes * lanes
    for d in range(0, whole, lanes):
        for i in range((height - 1) // lanes * lanes, -1, -lanes):
            row = min(i, rows - 1)
            transpose(a, first + row * k + d, k, rows - 1 - row, packed, target + d * height + i, height)
    for i in range(height):
        source = first + min(i, rows - 1) * k
        for d in range(whole, depth):
            packed[target + d * height + i] = a[source + d]


@compiled
def pack_b(b: Any, packed: Any, target: int, n: int, source: int, depth: int) -> None:
    """Pack a panel of B as rows of NR elements; what lies in the columns beyond the matrix is not used."""
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
