"""SHA-1 of a UTS node's children as a Numba intrinsic: one child in every lane of a vector register.

The message is 24 bytes, the parent's state and the child's number: one block, whose last ten words are constants that
LLVM folds into the 80 rounds. Written as LLVM IR, not as assembly, so that it works on every CPU that LLVM knows.

Source: FIPS 180-4, "Secure Hash Standard", section 6.1.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kernels import simd

WORD = ir.IntType(32)
LANES = simd.lanes(4)
"""Nodes that are hashed in lockstep: the 32-bit words of a vector register."""
MESSAGE_BITS = 24 * 8
INITIAL = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ROUND_CONSTANTS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)


def constant(kind: ir.Type, value: int) -> Any:
    """Return that number, in every lane if `kind` is a vector."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def emit_sha1(builder: Any, message: list[Any]) -> list[Any]:
    """Return the five words of the SHA-1 digest of a message of six words: i32 or vectors of i32 alike."""
    kind = message[0].type
    suffix = f"v{kind.count}i32" if isinstance(kind, ir.VectorType) else "i32"
    funnel = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fshl.{suffix}")

    def rotate(word: Any, bits: int) -> Any:
        return builder.call(funnel, [word, word, constant(kind, bits)])

    words = [*message, constant(kind, 1 << 31), *[constant(kind, 0)] * 8, constant(kind, MESSAGE_BITS)]
    for t in range(16, 80):
        mixed = builder.xor(builder.xor(words[t - 3], words[t - 8]), builder.xor(words[t - 14], words[t - 16]))
        words.append(rotate(mixed, 1))

    a, b, c, d, e = initial = [constant(kind, value) for value in INITIAL]
    for t in range(80):
        if t < 20:
            f = builder.xor(d, builder.and_(b, builder.xor(c, d)))
        elif 40 <= t < 60:
            f = builder.or_(builder.and_(b, c), builder.and_(d, builder.or_(b, c)))
        else:
            f = builder.xor(builder.xor(b, c), d)
        added = builder.add(words[t], constant(kind, ROUND_CONSTANTS[t // 20]))
        added = builder.add(builder.add(added, e), f)
        a, b, c, d, e = builder.add(added, rotate(a, 5)), a, rotate(b, 30), c, d
    return [builder.add(first, last) for first, last in zip(initial, (a, b, c, d, e), strict=True)]


def _is_table(array: types.Type) -> bool:
    return isinstance(array, types.Array) and array.ndim == 2 and array.layout == "C" and array.dtype == types.uint32


class _Table:
    """The places of the elements of a uint32[rows, columns] argument."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self.builder = builder
        struct = context.make_array(kind)(context, builder, array)
        self.data, self.columns = struct.data, builder.extract_value(struct.shape, 1)

    def pointer(self, row: Any, column: Any, vector: ir.Type) -> Any:
        place = self.builder.gep(self.data, [self.builder.add(self.builder.mul(row, self.columns), column)])
        return self.builder.bitcast(place, vector.as_pointer())


@intrinsic
def hash_children(typing: Any, nodes: Any, column: Any, digests: Any) -> Any:
    """Do digests[:, i] = SHA-1(nodes[:6, column + i]) for `LANES` columns: rows 0–4 the parent's state, 5 the number.

    `nodes` is uint32[≥6, ≥column + LANES], `digests` uint32[5, ≥LANES].
    """
    if not (_is_table(nodes) and _is_table(digests) and isinstance(column, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(WORD, LANES)
        source = _Table(context, builder, nodes, arguments[0])
        target = _Table(context, builder, digests, arguments[2])
        rows = [simd.INDEX(row) for row in range(6)]
        message = [builder.load(source.pointer(row, arguments[1], vector), align=4) for row in rows]
        for row, word in zip(rows, emit_sha1(builder, message), strict=False):
            builder.store(word, target.pointer(row, simd.INDEX(0), vector), align=4)
        return context.get_dummy_value()

    return types.void(nodes, types.intp, digests), codegen


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

        def everywhere(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, WORD(0))
            return builder.shuffle_vector(one, one, constant(vector, 0))

        numbers = ir.Constant(vector, list(range(LANES)))
        values = builder.add(everywhere(start), builder.mul(everywhere(stride), numbers))
        target = _Table(context, builder, table, array).pointer(at_row, at_column, vector)
        builder.store(values, target, align=4)
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, types.uint32, types.uint32), codegen
