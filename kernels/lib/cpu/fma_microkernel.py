"""Microkernel of a matrix product: a tile of C in vector registers.

Bound: the FMA units. A step multiplies a column of A by a row of B: MR·2 FMAs for MR broadcast loads and two vector
loads, within the two loads per cycle of every x86-64 CPU since Haswell. Measured with operands in L1 on one core of an
AMD Zen 4 with AVX-512: 0.98–1.00 of the rate of independent FMA chains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.simd import (
    INDEX,
    LINE_BYTES,
    VECTORS_WIDE,
    counted_loop,
    counted_loop_if_any,
    element_pointer,
    emit_prefetch,
    fma_function,
    index_arguments,
    is_flat,
    pointer_as,
    splat_ir,
    tile_shape,
    vector_ir,
    vector_pointer,
)


def emit_tile_loop(
    builder: Any, steps: Any, a: Any, b: Any, later: Any, later_step: Any, tile: tuple[Any, Any, Any], sums: list[Any],
    kind: ir.VectorType, multiply: Callable[[Any, Any, Any], Any],
) -> list[Any]:  # fmt: skip
    """Emit `steps` ≥ 1 steps of a tile and return its sums; each step adds a column of A times a row of B.

    `a`, `b` and `later` are pointers to elements; a vector of B has the type `kind`, and a row of the tile has
    `VECTORS_WIDE` sums. `multiply(sum, element, vector)` emits the product of a broadcast element of A and a vector of
    B, added to the sum. Each step prefetches a line at `later`, which advances by `later_step`, to the L2 cache.

    `tile` is the destination of the sums: a pointer to bytes, the bytes between rows, and the bytes of a row. Its lines
    are prefetched in the first steps, one per step, because all at once would delay the loads of A and B. A row may
    start anywhere in a line, so the line of its last byte is prefetched, too.
    """
    rows, itemsize = len(sums) // VECTORS_WIDE, 8 if isinstance(kind.element, ir.DoubleType) else 4
    first, spacing, row_bytes = tile

    def step(index: Any, values: list[Any]) -> list[Any]:
        emit_prefetch(builder, builder.gep(later, [builder.mul(index, later_step)]), write=0, level=2)
        a_column = builder.gep(a, [builder.mul(index, INDEX(rows))])
        b_row = builder.gep(b, [builder.mul(index, INDEX(VECTORS_WIDE * kind.count))])
        wide = []
        for j in range(VECTORS_WIDE):
            place = builder.gep(b_row, [INDEX(j * kind.count)])
            wide.append(builder.load(builder.bitcast(place, kind.as_pointer()), align=itemsize))
        results = []
        for i in range(rows):
            element = splat_ir(builder, kind, builder.load(builder.gep(a_column, [INDEX(i)]), align=itemsize))
            for j in range(VECTORS_WIDE):
                results.append(multiply(values[i * VECTORS_WIDE + j], element, wide[j]))
        return results

    lines = rows * (-(-VECTORS_WIDE * kind.count * itemsize // LINE_BYTES) + 1)
    prefetching = builder.select(builder.icmp_signed("<", steps, INDEX(lines)), steps, INDEX(lines))
    last = builder.sub(row_bytes, INDEX(1))

    def prefetch_and_step(index: Any, values: list[Any]) -> list[Any]:
        row = builder.mul(spacing, builder.urem(index, INDEX(rows)))
        column = builder.mul(builder.udiv(index, INDEX(rows)), INDEX(LINE_BYTES))
        column = builder.select(builder.icmp_signed("<", column, last), column, last)
        emit_prefetch(builder, builder.gep(first, [builder.add(row, column)]), write=1, level=1)
        return step(index, values)

    sums = counted_loop(builder, prefetching, sums, prefetch_and_step)
    rest = builder.sub(steps, prefetching)
    return counted_loop_if_any(builder, rest, sums, lambda index, values: step(builder.add(index, prefetching), values))


def _multiply_rows(
    rows_of: Callable[[int], int], depth: Any, a: Any, a_start: Any, b: Any, b_start: Any, c: Any, c_start: Any,
    c_stride: Any, begins: Any, later: Any, ahead: Any, ahead_step: Any,
) -> Any:  # fmt: skip
    """Return the signature and code generator of the product of a tile with `rows_of(itemsize)` rows."""
    flat = all(is_flat(x) and x.dtype == c.dtype for x in (a, b, c, later))
    if not (flat and index_arguments(depth, a_start, b_start, c_start, c_stride, ahead, ahead_step)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        steps, a_array, a_first, b_array, b_first, c_array, c_first, stride, empty, next_array, following, next_step = (
            arguments
        )
        vector = vector_ir(c.dtype)
        itemsize = c.dtype.bitwidth // 8
        rows, columns = rows_of(itemsize), tile_shape(itemsize)[1]
        multiply_add = fma_function(builder, vector)

        def row_of_c(i: int, column: int) -> Any:
            place = builder.add(builder.add(c_first, builder.mul(stride, INDEX(i))), INDEX(column))
            return vector_pointer(context, builder, c, c_array, place)

        tile = (
            pointer_as(ir.IntType(8), context, builder, c, c_array, c_first),
            builder.mul(stride, INDEX(itemsize)),
            INDEX(columns * itemsize),
        )
        sums = emit_tile_loop(
            builder,
            steps,
            element_pointer(context, builder, a, a_array, a_first),
            element_pointer(context, builder, b, b_array, b_first),
            element_pointer(context, builder, later, next_array, following),
            *(next_step, tile, [ir.Constant(vector, None)] * (rows * VECTORS_WIDE), vector),
            lambda total, element, of_b: builder.call(multiply_add, [element, of_b, total]),
        )
        places = [row_of_c(i, j * vector.count) for i in range(rows) for j in range(VECTORS_WIDE)]
        with builder.if_else(builder.trunc(empty, ir.IntType(1))) as (as_first, as_next):
            with as_first:
                for pointer, total in zip(places, sums, strict=True):
                    builder.store(total, pointer, align=itemsize)
            with as_next:
                for pointer, total in zip(places, sums, strict=True):
                    builder.store(builder.fadd(builder.load(pointer, align=itemsize), total), pointer, align=itemsize)
        return context.get_dummy_value()

    index = types.intp
    takes = (index, a, index, b, index, c, index, index, types.boolean, later, index, index)
    return types.void(*takes), codegen


@intrinsic
def multiply_tile(
    typing: Any, depth: Any, a: Any, a_start: Any, b: Any, b_start: Any, c: Any, c_start: Any, c_stride: Any,
    begins: Any, later: Any, ahead: Any, ahead_step: Any,
) -> Any:  # fmt: skip
    """Compute C += A·B for one tile of `tile_shape`, with the sums in registers; C = A·B if `begins` is true.

    `a` holds the tile's rows of A as `depth` ≥ 1 consecutive columns of MR elements, `b` its columns of B as `depth`
    rows of NR elements; row i of the tile of C begins at c[c_start + i·c_stride]. Step d prefetches
    later[ahead + d·ahead_step], which may be beyond the end of the array, to the L2 cache.
    """
    arguments = depth, a, a_start, b, b_start, c, c_start, c_stride, begins, later, ahead, ahead_step
    return _multiply_rows(lambda itemsize: tile_shape(itemsize)[0], *arguments)


@intrinsic
def multiply_half_tile(
    typing: Any, depth: Any, a: Any, a_start: Any, b: Any, b_start: Any, c: Any, c_start: Any, c_stride: Any,
    begins: Any, later: Any, ahead: Any, ahead_step: Any,
) -> Any:  # fmt: skip
    """Compute the product of `multiply_tile` for half the rows; `a` holds columns of MR/2 elements."""
    arguments = depth, a, a_start, b, b_start, c, c_start, c_stride, begins, later, ahead, ahead_step
    return _multiply_rows(lambda itemsize: tile_shape(itemsize)[0] // 2, *arguments)
