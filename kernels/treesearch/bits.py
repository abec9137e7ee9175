"""Bit operations on machine words: the lowest set bit, and the number of set bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing: Any, word: Any) -> Any:
    """Return the index of the lowest set bit of a uint32; 32 if none is set."""
    if word != types.uint32:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits, flag = ir.IntType(32), ir.IntType(1)
        kind = ir.FunctionType(bits, [bits, flag])
        count = cgutils.get_or_insert_function(builder.module, kind, "llvm.cttz.i32")
        return builder.zext(builder.call(count, [arguments[0], flag(0)]), ir.IntType(64))

    return types.int64(word), codegen


@intrinsic
def count_bits(typing: Any, word: Any) -> Any:
    """Return the number of set bits of a uint32; one instruction on every CPU since 2008."""
    if word != types.uint32:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        count = cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i32")
        return builder.zext(builder.call(count, arguments), ir.IntType(64))

    return types.int64(word), codegen
