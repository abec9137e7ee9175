"""Vectors of words as values in a Numba kernel, with lane-wise operators.

`load` and `splat` create vectors; `&`, `|`, `^`, `-`, `<<`, `>>` and `~` combine them lane by lane; `nonzero` returns
the lanes that are not 0 as the bits of a number; `store_chosen` writes selected lanes compacted. A search needs this
compaction to keep some children of a vector without a branch that depends on the selection.

The type of the words is that of the array from which they are loaded. The number of lanes is limited by the CPU's
instructions for compaction:

| CPU | compaction | 32-bit words | 16-bit words |
|---|---|---|---|
| AVX-512 with VBMI2 (Ice Lake, Zen 4) | `vpcompressw`, `vpcompressd` | 16 | 32 |
| AVX-512 (Skylake-X) | `vpcompressd` | 16 | none |
| AVX2 | permutation with indices from a table of 256 rows | 8 | none |
| other | none: LLVM has no portable permutation by indices | 1 | none |

With 1 lane the same kernel searches single words without unpredictable branches. Lanes are compacted in a register, and
the complete register is stored, because compaction to memory (`llvm.masked.compressstore`) is microcode on Zen 4.
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

from accelbench.kernels.lib.cpu.simd import features
from accelbench.kernels.lib.cpu.threads import compiled

COMPRESSES = "avx512f" in features()
LANES = 16 if COMPRESSES else 8 if "avx2" in features() else 1
"""32-bit words in a vector."""
NARROW_LANES = 32 if "avx512vbmi2" in features() else 0
"""16-bit words in a vector; 0 if the CPU cannot compact them."""
BIT, WORD = ir.IntType(1), ir.IntType(32)


def chosen_lanes() -> Any:
    """Return uint32 (2^LANES, LANES): row m contains the indices of the set bits of m in order, then zeros."""
    table = np.zeros((1 << LANES, LANES), np.uint32)
    for mask, row in enumerate(table):
        numbers = [lane for lane in range(LANES) if mask >> lane & 1]
        row[: len(numbers)] = numbers
    return table


CHOSEN = None if COMPRESSES else chosen_lanes().reshape(-1)


class Words(types.Type):  # type: ignore[misc]
    """Vector of `LANES` uint32 or `NARROW_LANES` uint16."""

    def __init__(self, word: types.Integer) -> None:
        self.bits = word.bitwidth
        self.vector = ir.VectorType(ir.IntType(self.bits), NARROW_LANES if self.bits == 16 else LANES)
        super().__init__(name=f"words({self.vector})")


@register_default(Words)
class WordsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Words) -> None:
        super().__init__(manager, kind, kind.vector)


def _words_of(array: Any) -> Words | None:
    """Return the vector type of an array; None unless it is flat and contiguous with words that can be compacted."""
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        return None
    known = (types.uint32, types.uint16) if NARROW_LANES else (types.uint32,)
    return Words(array.dtype) if array.dtype in known else None


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    element = builder.gep(context.make_array(kind)(context, builder, array).data, [index])
    return builder.bitcast(element, Words(kind.dtype).vector.as_pointer())


@intrinsic
def lanes_of(typing: Any, array: Any) -> Any:
    """Return the number of words in a vector of an array, a constant of the kernel."""
    words = _words_of(array)
    if words is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.IntType(64)(words.vector.count)

    return types.intp(array), codegen


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Return the words array[index : index + lanes_of(array)]."""
    words = _words_of(array)
    if words is None or not isinstance(index, types.Integer):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, array, *arguments), align=words.bits // 8)

    return words(array, types.intp), codegen


@intrinsic
def splat(typing: Any, array: Any, word: Any) -> Any:
    """Return a vector of the array's words with a uint32, truncated to the word, in every lane."""
    words = _words_of(array)
    if words is None or not isinstance(word, types.Integer):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = words.vector
        word = builder.trunc(arguments[1], vector.element) if words.bits < WORD.width else arguments[1]
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), word, WORD(0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(WORD, vector.count), [0] * vector.count))

    return words(array, types.uint32), codegen


@intrinsic
def nonzero(typing: Any, words: Any) -> Any:
    """Return an int64 in which bit i is set if lane i is not 0."""
    if not isinstance(words, Words):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.icmp_unsigned("!=", arguments[0], ir.Constant(words.vector, None))
        return builder.zext(builder.bitcast(bits, ir.IntType(words.vector.count)), ir.IntType(64))

    return types.int64(words), codegen


if COMPRESSES:

    @compiled
    def choice(mask: int) -> Any:
        """Return the argument of `store_chosen` that selects the lanes of the set bits of `mask`."""
        return mask

else:

    @compiled
    def choice(mask: int) -> Any:
        """Return the argument of `store_chosen` that selects the lanes of the set bits of `mask`."""
        return load(CHOSEN, mask * LANES)


@intrinsic
def store_chosen(typing: Any, array: Any, index: Any, words: Any, choice: Any) -> Any:
    """Write the lanes of a `choice`, compacted, to array[index:].

    `lanes_of(array)` words are always written; those after the chosen lanes are unspecified.
    """
    kind = _words_of(array)
    wanted = types.int64 if COMPRESSES else kind
    if kind is None or words != kind or choice != wanted or not isinstance(index, types.Integer):
        return None
    choose = _compress if COMPRESSES else _permute if LANES > 1 else _only_lane

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen = choose(builder, *arguments[2:])
        builder.store(chosen, _pointer(context, builder, array, *arguments[:2]), align=kind.bits // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, words, choice), codegen


def _compress(builder: Any, words: Any, mask: Any) -> Any:
    vector = words.type
    bits = builder.bitcast(builder.trunc(mask, ir.IntType(vector.count)), ir.VectorType(BIT, vector.count))
    kind = ir.FunctionType(vector, [vector, vector, bits.type])
    name = f"llvm.x86.avx512.mask.compress.v{vector.count}{vector.element}"
    compress = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(compress, [words, ir.Constant(vector, None), bits])


def _permute(builder: Any, words: Any, order: Any) -> Any:
    kind = ir.FunctionType(words.type, [words.type] * 2)
    permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permd")
    return builder.call(permute, [words, order])


def _only_lane(builder: Any, words: Any, order: Any) -> Any:
    return words


def _define(symbol: Callable[[Any, Any], Any], instruction: str) -> None:
    """Register an operator of two vectors with Numba."""

    @intrinsic
    def combine(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments)

        return a(a, b), codegen

    @overload(symbol)
    def of_vectors(a: Any, b: Any) -> Any:
        return combined if isinstance(a, Words) and a == b else None

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

    return words(words), codegen


def _inverted(words: Any) -> Any:
    return _complement(words)


@overload(operator.invert)
def _invert(words: Any) -> Any:
    return _inverted if isinstance(words, Words) else None
