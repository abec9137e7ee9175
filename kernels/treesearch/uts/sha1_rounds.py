"""SHA-1 of the message of a UTS node as LLVM IR, for one message in words or for one message per lane of vectors.

The message is 24 bytes: the parent's state and the child's number. It is one block; LLVM folds its last ten words,
which are constants, into the 80 rounds. Written as LLVM IR, not as assembly, so that it works on every CPU that LLVM
supports.

Source: FIPS 180-4, "Secure Hash Standard", section 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils

WORD = ir.IntType(32)
MESSAGE_BITS = 24 * 8
INITIAL = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ROUND_CONSTANTS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)


def constant(kind: ir.Type, value: int) -> Any:
    """Return a constant, in every lane if `kind` is a vector."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def rotate(builder: Any, word: Any, bits: int) -> Any:
    """Return a word, or each word of a vector, rotated to the left."""
    kind = word.type
    suffix = f"v{kind.count}i32" if isinstance(kind, ir.VectorType) else "i32"
    funnel = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fshl.{suffix}")
    return builder.call(funnel, [word, word, constant(kind, bits)])


def emit_schedule(builder: Any, message: list[Any]) -> Iterator[Any]:
    """Yield the 80 words of the message schedule for a message of six words; each is emitted when it is requested."""
    kind = message[0].type
    words = [*message, constant(kind, 1 << 31), *[constant(kind, 0)] * 8, constant(kind, MESSAGE_BITS)]
    yield from words
    for t in range(16, 80):
        mixed = builder.xor(builder.xor(words[t - 3], words[t - 8]), builder.xor(words[t - 14], words[t - 16]))
        words.append(rotate(builder, mixed, 1))
        yield words[t]


def emit_sha1(builder: Any, message: list[Any]) -> list[Any]:
    """Return the five words of the SHA-1 digest of a message of six words, of type i32 or vectors of i32."""
    kind = message[0].type
    words = list(emit_schedule(builder, message))
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
        a, b, c, d, e = builder.add(added, rotate(builder, a, 5)), a, rotate(builder, b, 30), c, d
    return [builder.add(first, last) for first, last in zip(initial, (a, b, c, d, e), strict=True)]
