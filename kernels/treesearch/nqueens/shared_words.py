"""Shared memory by address, and shifts by the low bits of a word, for Numba-CUDA kernels.

Array indexing costs instructions at every access: the index is scaled to bytes and added to the start of the array.
Here a *place* is a 32-bit address in shared memory, as the hardware uses it, and a constant offset in bytes is part of
the instruction. A shift by the low five bits of a word saves the instruction that masks them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from accelbench.kernels.lib.gpu.numba_cuda import intrinsic, types

WORD_BYTES = 4
FRAME_WORDS = 4
FRAME_BYTES = FRAME_WORDS * WORD_BYTES
"""Bytes of a frame: the maximum of one access."""


SHARED = 3
"""LLVM's address space of shared memory on NVIDIA GPUs."""
BYTE, WORD = ir.IntType(8), ir.IntType(32)
FRAME = ir.VectorType(WORD, FRAME_WORDS)


def _pointer(builder: Any, place: Any, kind: Any) -> Any:
    return builder.inttoptr(place, ir.PointerType(kind, addrspace=SHARED))


@intrinsic
def place_of(typing: Any, array: Any, index: Any) -> Any:
    """Return the place of an element of a shared array of words."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.gep(context.make_array(array)(context, builder, arguments[0]).data, [arguments[1]])
        shared = builder.addrspacecast(first, ir.PointerType(WORD, addrspace=SHARED))
        return builder.trunc(builder.ptrtoint(shared, ir.IntType(64)), WORD)

    return types.uint32(array, types.intp), codegen


@intrinsic
def load_word(typing: Any, array: Any, place: Any) -> Any:
    """Return the word at a place."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[1], WORD))

    return types.uint32(array, types.uint32), codegen


@intrinsic
def load_frame(typing: Any, array: Any, place: Any) -> Any:
    """Return the four words from a place on, which must be a multiple of `FRAME_BYTES`."""
    kind = types.UniTuple(types.uint32, FRAME_WORDS)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        frame = builder.load(_pointer(builder, arguments[1], FRAME), align=FRAME_BYTES)
        words = [builder.extract_element(frame, WORD(word)) for word in range(FRAME_WORDS)]
        return context.make_tuple(builder, kind, words)

    return kind(array, types.uint32), codegen


@intrinsic
def store_frame(typing: Any, array: Any, place: Any, beyond: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Write four words `beyond` bytes after a place, at a multiple of `FRAME_BYTES`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, start, distance, *words = arguments
        frame = ir.Constant(FRAME, ir.Undefined)
        for word, value in enumerate(words):
            frame = builder.insert_element(frame, value, WORD(word))
        # The offset is added to a pointer instead of the place, so that it becomes part of the store instruction.
        place = builder.gep(_pointer(builder, start, BYTE), [distance])
        builder.store(frame, builder.bitcast(place, ir.PointerType(FRAME, addrspace=SHARED)), align=FRAME_BYTES)
        return context.get_dummy_value()

    word = types.uint32
    return types.void(array, word, types.intp, word, word, word, word), codegen


def _shift(code: str) -> Any:
    """Return a device function of (word, steps) that compiles to the given PTX instruction."""

    @intrinsic
    def shift(typing: Any, word: Any, steps: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.asm(ir.FunctionType(WORD, [WORD, WORD]), code, "=r,r,r", arguments, False)

        return types.uint32(types.uint32, types.uint32), codegen

    return shift


shift_left = _shift("shf.l.wrap.b32 $0, 0, $1, $2;")
shift_right = _shift("shf.r.wrap.b32 $0, $1, 0, $2;")
