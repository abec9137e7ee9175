"""AMX for Numba kernels: instructions on tiles, each a product of two small matrices of narrow numbers.

A *tile* is a register of 16 rows of 64 bytes; a core has eight. An instruction adds the product of two tiles to a
third, which holds 16×16 sums of 32 bits. The first factor has the layout of A: row m holds 64 int8 or 32 bfloat16 of
row m of A. The second factor is `interleaved`: each 32-bit word holds the four int8 or two bfloat16 of one column of B
that are adjacent along k, and row r holds word r of 16 columns:

    C[m, n] += Σ_r Σ_j A[m, group·r + j] · B[r, group·n + j]

The code uses LLVM's intrinsics that take the tile number as an operand: this module assigns the tiles.

A process requests the tile registers from Linux (`refusal`), because they enlarge the saved state of a thread by 8 KiB.
A thread then configures its tiles before use and releases them at the end (`configure_tiles`, `release_tiles`).

This code has never run on a CPU with AMX. Tests inspect the machine code that LLVM generates for Intel Sapphire Rapids,
and run the same kernels with each instruction replaced by an emulation after Intel's manual.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.simd import INDEX, counted_loop, element_pointer, features, index_arguments

TILES = 8
ROWS = 16
ROW_BYTES = 64
TILE_BYTES = ROWS * ROW_BYTES
COLUMNS = ROW_BYTES // 4
"""Columns of C in a tile of 32-bit sums."""
TILE_SUMS = ROWS * COLUMNS
HELD = 2
"""Tiles of A, and of B, held in registers; with the sums of their products all eight are used: 2 + 2 + 2·2."""
TILE_CHAINS = HELD * HELD
"""Independent tiles of sums in the measurement of the arithmetic peak. Intel's optimisation manual states a latency of
52 cycles and a throughput of one instruction per 16 cycles, so that four chains saturate the unit."""

INTRINSICS = "llvm.x86."
PALETTE = 1
"""The only palette: eight tiles of at most 16 rows of at most 64 bytes."""
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
"""System call number of `arch_prctl` on x86-64, its code `ARCH_REQ_XCOMP_PERM`, and the XSAVE component of the tile
registers (Linux, `Documentation/arch/x86/xstate.rst`)."""


@dataclass(frozen=True)
class TileDot:
    """A multiply-accumulate instruction on tiles of narrow numbers."""

    name: str
    dtype: str
    needs: frozenset[str]
    """Required CPU features, by LLVM's names."""
    group: int
    """Narrow numbers in a 32-bit word."""

    @property
    def depth(self) -> int:
        """Columns of A and rows of B in a tile: the products that are added to each sum."""
        return ROW_BYTES // 4 * self.group

    @property
    def flops(self) -> int:
        """Operations of one instruction: a multiplication and an addition for each product."""
        return 2 * TILE_SUMS * self.depth


INSTRUCTIONS = (
    TileDot("tdpbssd", "int8", frozenset({"amx-tile", "amx-int8"}), 4),
    TileDot("tdpbf16ps", "bfloat16", frozenset({"amx-tile", "amx-bf16"}), 2),
)


def find_tile_dot(dtype: str, has: Collection[str] | None = None) -> TileDot | None:
    """Return the instruction for a type on a CPU with these features (default: this CPU's), or None."""
    known = features() if has is None else frozenset(has)
    return next((dot for dot in INSTRUCTIONS if dot.dtype == dtype and dot.needs <= known), None)


def refusal() -> str | None:
    """Request the tiles from Linux for all threads of this process; return None if granted, else the reason."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "AMX tile registers can be requested on x86-64 Linux only"
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    if call(*map(ctypes.c_long, (ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA))) == 0:
        return None
    return f"Linux denies the AMX tile registers: {os.strerror(ctypes.get_errno())}"


def tile_configuration() -> Any:
    """Return the 64 bytes that `ldtilecfg` reads, for eight tiles of full size.

    Byte 0 is the palette, and byte 1 the row at which an interrupted load resumes. The bytes per row of each tile start
    at byte 16, as 16-bit numbers; the rows of each tile start at byte 48. All other bytes are zero.
    """
    configuration = np.zeros(64, np.uint8)
    configuration[0] = PALETTE
    configuration[16 : 16 + 2 * TILES].view("<u2")[:] = ROW_BYTES
    configuration[48 : 48 + TILES] = ROWS
    return configuration


def interleaved(b: Any, group: int) -> Any:
    """Return B (…, k, columns) in the layout of a second factor's tile: (…, k / group, group·columns)."""
    *stack, depth, columns = b.shape
    return b.reshape(*stack, depth // group, group, columns).swapaxes(-1, -2).reshape(*stack, depth // group, -1)


def _call(builder: Any, name: str, *operands: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, INTRINSICS + name), operands)


def _tile(number: int) -> Any:
    return ir.IntType(8)(number)


def _bytes_at(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.bitcast(element_pointer(context, builder, kind, array, index), ir.IntType(8).as_pointer())


@intrinsic
def configure_tiles(typing: Any) -> Any:
    """Configure eight tiles of full size, all zero, for this thread; `refusal` must have returned None before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        content = cgutils.create_constant_array(ir.IntType(8), tile_configuration().tolist())
        stored = cgutils.global_constant(builder, "tile_configuration", content)
        _call(builder, "ldtilecfg", builder.bitcast(stored, ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def release_tiles(typing: Any) -> Any:
    """Release this thread's tiles, so that Linux no longer saves them at a context switch."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def run_tile_chains(typing: Any, sums: Any, start: Any, factors: Any, steps: Any) -> Any:
    """Add A0·B0, A0·B1, A1·B0 and A1·B1 to `TILE_CHAINS` tiles of sums, `steps` ≥ 1 times.

    The sums are at sums[start:], int32 for int8 and float32 for bfloat16. `factors`, of uint8, contains the bytes of
    the tiles A0, A1, B0 and B1. The thread must have configured its tiles.
    """
    flat = isinstance(sums, types.Array) and sums.ndim == 1 and sums.layout == "C" and index_arguments(start, steps)
    dtype = {types.int32: "int8", types.float32: "bfloat16"}.get(sums.dtype) if flat else None
    dot = find_tile_dot(dtype) if dtype is not None else None
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, operands, count = arguments
        places = [
            _bytes_at(context, builder, sums, array, builder.add(first, INDEX(chain * TILE_SUMS)))
            for chain in range(TILE_CHAINS)
        ]
        for chain, place in enumerate(places):
            _call(builder, "tileloadd64", _tile(chain), place, INDEX(ROW_BYTES))
        for factor in range(2 * HELD):
            place = _bytes_at(context, builder, factors, operands, INDEX(factor * TILE_BYTES))
            _call(builder, "tileloadd64", _tile(TILE_CHAINS + factor), place, INDEX(ROW_BYTES))

        def step(index: Any, values: list[Any]) -> list[Any]:
            for chain in range(TILE_CHAINS):
                a, b = TILE_CHAINS + chain // HELD, TILE_CHAINS + HELD + chain % HELD
                _call(builder, dot.name, _tile(chain), _tile(a), _tile(b))
            return values

        counted_loop(builder, count, [], step)
        for chain, place in enumerate(places):
            _call(builder, "tilestored64", _tile(chain), place, INDEX(ROW_BYTES))
        return context.get_dummy_value()

    return types.void(sums, types.intp, factors, types.intp), codegen
