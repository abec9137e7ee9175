"""SHA-1 of UTS nodes and other vector operations of the search as Numba intrinsics, with one node per lane.

The hash is computed by `sha1_rounds`, or by `sha_ni` on CPUs where that is faster.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu import simd
from accelbench.kernels.treesearch.uts import sha_ni
from accelbench.kernels.treesearch.uts.sha1_rounds import WORD, constant, emit_sha1
from accelbench.kernels.treesearch.uts.trees import RANDOM_VALUES, STATE_WORDS

LANES = simd.lanes(4)
"""Nodes hashed at the same time: the 32-bit words of a vector register."""
NUMBER, DEPTH, FERTILE_FROM, WORDS = range(STATE_WORDS, STATE_WORDS + 4)
"""Rows of a table of nodes, after the parent's state: number of the node among its siblings, depth, and smallest random
number with which it has children; then the number of rows."""
RANDOM, HASHED_DEPTH, HASHED = range(STATE_WORDS, STATE_WORDS + 3)
"""Rows of a table of hashed nodes, after the node's state: random number and depth; then the number of rows."""
emit_nodes = sha_ni.emit_sha1 if sha_ni.is_faster(simd.features()) else emit_sha1
"""Emits the hash of one node per lane by the faster method for this CPU."""


def everywhere(builder: Any, vector: ir.VectorType, value: Any) -> Any:
    """Return a vector with a word in every lane."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, WORD(0))
    return builder.shuffle_vector(one, one, constant(vector, 0))


def lanes_as_bits(builder: Any, truths: Any) -> Any:
    """Return a boolean vector as the bits of a word, with lane 0 in the lowest bit."""
    return builder.zext(builder.bitcast(truths, ir.IntType(LANES)), WORD)


def _is_table(array: types.Type) -> bool:
    return isinstance(array, types.Array) and array.ndim == 2 and array.layout == "C" and array.dtype == types.uint32


class _Table:
    """Addresses of the elements of a uint32[rows, columns] argument."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self.builder = builder
        struct = context.make_array(kind)(context, builder, array)
        self.data, self.columns = struct.data, builder.extract_value(struct.shape, 1)

    def pointer(self, row: Any, column: Any, vector: ir.Type) -> Any:
        place = self.builder.gep(self.data, [self.builder.add(self.builder.mul(row, self.columns), column)])
        return self.builder.bitcast(place, vector.as_pointer())


@intrinsic
def hash_nodes(typing: Any, nodes: Any, column: Any, flip: Any, hashed: Any, first: Any) -> Any:
    """Hash `LANES` nodes from nodes[:, column] on into hashed[first:]; return the lanes with children as bits.

    `nodes` is uint32[WORDS, ≥column + LANES]: parent's state, number, depth, smallest random number with children.
    `hashed` is uint32[≥first + HASHED, ≥LANES]: the node's state, its random number ^ `flip`, its depth.
    """
    if not (_is_table(nodes) and _is_table(hashed) and all(isinstance(x, types.Integer) for x in (column, first))):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(WORD, LANES)
        source = _Table(context, builder, nodes, arguments[0])
        target = _Table(context, builder, hashed, arguments[3])
        *message, depth, fertile_from = (
            builder.load(source.pointer(simd.INDEX(row), arguments[1], vector), align=4) for row in range(WORDS)
        )
        state = emit_nodes(builder, message)
        random = builder.and_(state[-1], constant(vector, RANDOM_VALUES - 1))
        random = builder.xor(random, everywhere(builder, vector, arguments[2]))
        for row, word in enumerate((*state, random, depth)):
            place = builder.add(arguments[4], simd.INDEX(row))
            builder.store(word, target.pointer(place, simd.INDEX(0), vector), align=4)
        return lanes_as_bits(builder, builder.icmp_unsigned(">=", random, fertile_from))

    return types.uint32(nodes, types.intp, types.uint32, hashed, types.intp), codegen


@intrinsic
def count_reached(typing: Any, table: Any, row: Any, column: Any, value: Any) -> Any:
    """Return the number of the `LANES` elements from table[row, column] on that are ≤ value."""
    if not (_is_table(table) and all(isinstance(x, types.Integer) for x in (row, column, value))):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at_row, at_column, value = arguments
        vector = ir.VectorType(WORD, LANES)
        elements = builder.load(_Table(context, builder, table, array).pointer(at_row, at_column, vector), align=4)
        reached = lanes_as_bits(builder, builder.icmp_unsigned("<=", elements, everywhere(builder, vector, value)))
        kind = ir.FunctionType(WORD, [WORD])
        count = cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i32")
        return builder.zext(builder.call(count, [reached]), simd.INDEX)

    return types.int64(table, types.intp, types.intp, types.uint32), codegen


@intrinsic
def hash_child(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, child: Any) -> Any:
    """Return the state of one child as a tuple of five uint32, from its parent's state and its number."""
    if any(word != types.uint32 for word in (a, b, c, d, e, child)):
        return None
    digest = types.UniTuple(types.uint32, 5)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_tuple(builder, digest, emit_sha1(builder, list(arguments)))

    return digest(a, b, c, d, e, child), codegen


@intrinsic
def store_lanes(typing: Any, table: Any, row: Any, column: Any, first: Any, step: Any) -> Any:
    """Do table[row, column + i] = first + i·step for `LANES` columns, in one store."""
    if not (_is_table(table) and all(isinstance(x, types.Integer) for x in (row, column, first, step))):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at_row, at_column, start, stride = arguments
        vector = ir.VectorType(WORD, LANES)

        numbers = ir.Constant(vector, list(range(LANES)))
        steps = builder.mul(everywhere(builder, vector, stride), numbers)
        values = builder.add(everywhere(builder, vector, start), steps)
        target = _Table(context, builder, table, array).pointer(at_row, at_column, vector)
        builder.store(values, target, align=4)
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, types.uint32, types.uint32), codegen
