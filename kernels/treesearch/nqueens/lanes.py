"""Several 32-bit words at once: vector registers as values inside a Numba kernel, with the operators of one word.

`load` and `splat` make them; `&`, `|`, `^`, `-`, `<<`, `>>` and `~` combine them lane by lane; `nonzero` tells which
lanes are not 0, as the bits of a number; `store_chosen` writes some lanes side by side, the others not at all. That
last one is what a search needs: of eight children, some are kept, and no branch depends on which.

With AVX2 there are 8 lanes and choosing them is one permutation, its indices looked up in a table of 256 rows. Other
instruction sets have no such permutation that LLVM offers for all: there is 1 lane there, and the same kernel
is a search of single words without unpredictable branches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic, overload

from kernels.simd import features

LANES = 8 if "avx2" in features() else 1
WORD = ir.IntType(32)
VECTOR = ir.VectorType(WORD, LANES)
BYTES = 4
"""The bytes of a word: vectors are loaded and stored at any word."""


def chosen_lanes() -> Any:
    """uint32 (2^LANES, LANES): row m has the numbers of the bits set in m, in order; the rest of the row is 0."""
    table = np.zeros((1 << LANES, LANES), np.uint32)
    for mask, row in enumerate(table):
        numbers = [lane for lane in range(LANES) if mask >> lane & 1]
        row[: len(numbers)] = numbers
    return table


CHOSEN = chosen_lanes().reshape(-1)


class Words(types.Type):  # type: ignore[misc]
    """`LANES` words of type uint32."""

    def __init__(self) -> None:
        super().__init__(name=f"words({LANES})")


WORDS = Words()


@register_default(Words)
class WordsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Words) -> None:
        super().__init__(manager, kind, VECTOR)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    element = builder.gep(context.make_array(kind)(context, builder, array).data, [index])
    return builder.bitcast(element, VECTOR.as_pointer())


def _is_flat(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C" and array.dtype == types.uint32


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Return the words array[index : index + LANES] of a contiguous uint32 array."""
    if not (_is_flat(array) and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, array, *arguments), align=BYTES)

    return WORDS(array, types.intp), codegen


@intrinsic
def splat(typing: Any, word: Any) -> Any:
    """Return that word in every lane."""
    if not isinstance(word, types.Integer):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), arguments[0], WORD(0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(WORD, LANES), [0] * LANES))

    return WORDS(types.uint32), codegen


@intrinsic
def nonzero(typing: Any, words: Any) -> Any:
    """int64: bit i is set where lane i is not 0."""
    if words != WORDS:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.icmp_unsigned("!=", arguments[0], ir.Constant(VECTOR, None))
        return builder.zext(builder.bitcast(bits, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(words), codegen


@intrinsic
def store_chosen(typing: Any, array: Any, index: Any, words: Any, order: Any) -> Any:
    """Write the lanes that `order`, a row of `CHOSEN`, numbers to array[index:]; what follows them is overwritten too.

    Always `LANES` words are written.
    """
    if not (_is_flat(array) and isinstance(index, types.Integer) and words == order == WORDS):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen = arguments[2]
        if LANES > 1:
            kind = ir.FunctionType(VECTOR, [VECTOR, VECTOR])
            permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permd")
            chosen = builder.call(permute, arguments[2:])
        builder.store(chosen, _pointer(context, builder, array, *arguments[:2]), align=BYTES)
        return context.get_dummy_value()

    return types.void(array, types.intp, words, words), codegen


def _define(symbol: Callable[[Any, Any], Any], instruction: str) -> None:
    """Teach Numba one operator between two vectors."""

    @intrinsic
    def combine(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments)

        return WORDS(a, b), codegen

    @overload(symbol)
    def of_vectors(a: Any, b: Any) -> Any:
        return combined if a == b == WORDS else None

    def combined(a: Any, b: Any) -> Any:
        return combine(a, b)


for _symbol, _instruction in {
    operator.and_: "and_",
    operator.or_: "or_",
    operator.xor: "xor",
    operator.sub: "sub",
    operator.lshift: "shl",
    operator.rshift: "lshr",
}.items():
    _define(_symbol, _instruction)


@intrinsic
def _complement(typing: Any, words: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.not_(arguments[0])

    return WORDS(words), codegen


def _inverted(words: Any) -> Any:
    return _complement(words)


@overload(operator.invert)
def _invert(words: Any) -> Any:
    return _inverted if words == WORDS else None
