"""Microkernel of a matrix product of narrow numbers: a tile of C in vector registers, and the packing of B for it.

Bound: the multiplying units. A step multiplies a column of words of A by a row of words of B (`dot_instructions`):
MR·2 dot-product instructions for MR broadcast loads and two vector loads, as in `fma_microkernel`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.dot_instructions import DotInstruction, Narrow, dot_of, words_of
from accelbench.kernels.lib.cpu.fma_microkernel import emit_tile_loop
from accelbench.kernels.lib.cpu.simd import INDEX, VECTORS_WIDE, changed_if, counted_loop, pointer_as, tile_shape

WORD = ir.IntType(32)
WORD_BYTES = 4
BYTES = ir.IntType(8).as_pointer()


def dot_tile(dot: DotInstruction) -> tuple[int, int]:
    """Return the rows and columns of C in registers: as many vectors as in `tile_shape`, of the width of `dot`."""
    return tile_shape(WORD_BYTES)[0], VECTORS_WIDE * dot.sums


def result_ir(dot: DotInstruction) -> ir.VectorType:
    """Return the LLVM type of a register of results: the sums, or the sums rounded to bfloat16."""
    return Narrow("bfloat", dot.sums) if dot.dtype == "bfloat16" else dot.sum_ir


def emit_tile(
    dot: DotInstruction, rows: int, builder: Any, steps: Any, a: Any, b: Any, ahead: Any, ahead_step: Any, offsets: Any,
    held: Any, c: Any, stride: Any, begins: Any, ends: Any,
) -> None:  # fmt: skip
    """Emit the code of `multiply_dot_tile` for pointers to words, sums and elements of C."""
    columns, result, result_bytes = dot_tile(dot)[1], result_ir(dot), 2 if dot.dtype == "bfloat16" else 4

    def vector(pointer: Any, index: Any, kind: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())

    def row_of_c(i: int, column: int) -> Any:
        return vector(c, builder.add(builder.mul(stride, INDEX(i)), INDEX(column)), result)

    first = [ir.Constant(dot.sum_ir, None)] * VECTORS_WIDE
    if dot.unsigned:
        pointers = [vector(offsets, INDEX(j * dot.sums), dot.sum_ir) for j in range(VECTORS_WIDE)]
        first = [builder.sub(first[0], builder.load(pointer, align=4)) for pointer in pointers]
    whole_row = INDEX(columns * WORD_BYTES)
    place = builder.select(ends, builder.bitcast(c, BYTES), builder.bitcast(held, BYTES))
    spacing = builder.select(ends, builder.mul(stride, INDEX(result_bytes)), whole_row)
    row_bytes = builder.select(ends, INDEX(columns * result_bytes), whole_row)
    sums = emit_tile_loop(
        *(builder, steps, a, b, ahead, ahead_step, (place, spacing, row_bytes), first * rows, words_of(dot)),
        lambda total, word, of_b: dot.call(builder, total, word, of_b),
    )

    add = builder.add if dot.dtype == "int8" else builder.fadd
    places = [vector(held, INDEX(i * dot.sums), dot.sum_ir) for i in range(rows * VECTORS_WIDE)]

    def added(values: list[Any]) -> list[Any]:
        return [add(builder.load(place, align=4), value) for place, value in zip(places, values, strict=True)]

    totals = changed_if(builder, builder.not_(begins), sums, added)
    with builder.if_else(ends) as (as_numbers, as_sums):
        with as_numbers:
            for i, total in enumerate(totals):
                number = builder.fptrunc(total, result) if dot.dtype == "bfloat16" else total
                place = row_of_c(i // VECTORS_WIDE, i % VECTORS_WIDE * dot.sums)
                builder.store(number, place, align=result_bytes)
        with as_sums:
            for place, total in zip(places, totals, strict=True):
                builder.store(total, place, align=4)


@intrinsic
def multiply_dot_tile(
    typing: Any, height: Any, depth: Any, a: Any, a_start: Any, b: Any, b_start: Any, ahead: Any, ahead_step: Any,
    offsets: Any, offset: Any, held: Any, held_start: Any, c: Any, c_start: Any, stride: Any, begins: Any, ends: Any,
) -> Any:  # fmt: skip
    """Multiply A by B for one tile, with the sums in registers, over one part of k.

    The tile has the MR rows of `dot_tile`, or half of them if `height` ≤ MR/2. `a` holds its rows of A as `depth` ≥ 1
    columns of MR (or MR/2) words, `b` its columns of B as `depth` rows of NR words, both of uint32. The sums that
    `pack_words` stored at offsets[offset:] are subtracted.

    Partial sums over k are kept at held[held_start:]: they are read unless this part is the first one (`begins`), and
    written unless it is the last one (`ends`). The last part writes row i of the tile to c[c_start + i·stride]. Step d
    prefetches b[ahead + d·ahead_step], which may be beyond the end of the array, to the L2 cache.
    """
    dot = dot_of(held, matrix=False)
    if dot is None:
        return None
    rows = dot_tile(dot)[0]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tile_height, steps, a_array, a_first, b_array, b_first, following, next_step, *rest = arguments
        offsets_array, offset_first, held_array, held_first, c_array, c_first, c_stride, *flags = rest
        total = dot.sum_ir.element

        def pointer(kind: Any, array_type: Any, array: Any, index: Any) -> Any:
            return pointer_as(kind, context, builder, array_type, array, index)

        operands = (
            *(pointer(WORD, a, a_array, a_first), pointer(WORD, b, b_array, b_first)),
            *(pointer(WORD, b, b_array, following), next_step),
            *(pointer(total, offsets, offsets_array, offset_first), pointer(total, held, held_array, held_first)),
            *(pointer(ir.IntType(c.dtype.bitwidth), c, c_array, c_first), c_stride),
            *(builder.trunc(flag, ir.IntType(1)) for flag in flags),
        )
        with builder.if_else(builder.icmp_signed(">", tile_height, INDEX(rows // 2))) as (as_whole, as_half):
            with as_whole:
                emit_tile(dot, rows, builder, steps, *operands)
            with as_half:
                emit_tile(dot, rows // 2, builder, steps, *operands)
        return context.get_dummy_value()

    index, flag = types.intp, types.boolean
    takes = (index, index, a, index, b, index, index, index, offsets, index, held, index, c, index, index, flag, flag)
    return types.void(*takes), codegen


def _tile_constant(sums: Any, which: int) -> Any:
    dot = dot_of(sums, matrix=False)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return INDEX(dot_tile(dot)[which])

    return types.intp(sums), codegen


@intrinsic
def dot_rows(typing: Any, sums: Any) -> Any:
    """Return the number of rows of `dot_tile` for an array of sums, a constant of the kernel."""
    return _tile_constant(sums, 0)


@intrinsic
def dot_columns(typing: Any, sums: Any) -> Any:
    """Return the number of columns of `dot_tile` for an array of sums, a constant of the kernel."""
    return _tile_constant(sums, 1)


@intrinsic
def pack_words(
    typing: Any, b: Any, source: Any, n: Any, packed: Any, target: Any, words: Any, offsets: Any, offset: Any
) -> Any:
    """Pack `words` ≥ 1 words of each of NR columns of B, of uint8 or uint16; a word holds the numbers of 4 or 2 rows.

    For int8 with an unsigned first factor, 128 times each number is added to the element of offsets[offset:] of its
    column, by the dot product of the word with (128, 128, 128, 128).
    """
    dot = dot_of(offsets, matrix=False)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b_array, first, stride, packed_array, place, steps, offsets_array, offset_first = arguments
        columns, bits = dot_tile(dot)[1], 32 // dot.products
        narrow, wide = (ir.VectorType(ir.IntType(size), columns) for size in (bits, 32))
        lanes = [list(range(j * dot.sums, (j + 1) * dot.sums)) for j in range(VECTORS_WIDE)]
        rows = [builder.mul(stride, INDEX(e)) for e in range(dot.products)]
        step_down = builder.mul(stride, INDEX(dot.products))

        def every(kind: Any, value: int) -> Any:
            return ir.Constant(kind, [value] * kind.count)

        def pack(index: Any, totals: list[Any]) -> list[Any]:
            top = builder.add(first, builder.mul(index, step_down))
            word = every(wide, 0)
            for e, row in enumerate(rows):
                pointer = pointer_as(narrow, context, builder, b, b_array, builder.add(top, row))
                number = builder.zext(builder.load(pointer, align=1), wide)
                word = builder.or_(word, builder.shl(number, every(wide, bits * e)))
            at = builder.add(place, builder.mul(index, INDEX(columns)))
            builder.store(word, pointer_as(wide, context, builder, packed, packed_array, at), align=4)
            if not totals:
                return []
            vectors = [builder.shuffle_vector(word, word, ir.Constant(words_of(dot), of_vector)) for of_vector in lanes]
            factor = every(words_of(dot), 0x80808080)
            return [dot.call(builder, total, factor, vector) for total, vector in zip(totals, vectors, strict=True)]

        places = []
        for j in range(VECTORS_WIDE if dot.unsigned else 0):
            at = builder.add(offset_first, INDEX(j * dot.sums))
            places.append(pointer_as(dot.sum_ir, context, builder, offsets, offsets_array, at))
        before = [builder.load(pointer, align=4) for pointer in places]
        for pointer, total in zip(places, counted_loop(builder, steps, before, pack), strict=True):
            builder.store(total, pointer, align=4)
        return context.get_dummy_value()

    index = types.intp
    return types.void(b, index, index, packed, index, index, offsets, index), codegen
