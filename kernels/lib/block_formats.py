"""Block-scaled number formats: narrow elements, and a scale for each block of consecutive elements of a row.

`mxfp8`: e4m3 with a power of two (UE8M0) for 32 elements (OCP Microscaling Formats (MX) Specification 1.0). `nvfp4`:
e2m1 with a scale in e4m3 without sign (UE4M3) for 16 elements. Scales are chosen as cuBLASLt does ("1D Block
Quantization", cuBLAS manual), with a tensor scale of 1, which suffices for standard normal elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TILE_ROWS, TILE_BLOCKS = 128, 4
"""Scales of a tile of cuBLASLt's layout: of 4 consecutive blocks in each of 128 rows."""


@dataclass(frozen=True)
class BlockFormat:
    """Types of elements and scales, by their names in ml_dtypes."""

    element: str
    scale: str
    block: int
    """Number of elements with a common scale."""
    largest: float
    """Largest element."""
    per_byte: int = 1
    """Number of elements stored in a byte."""

    @property
    def bytes_each(self) -> float:
        """Bytes of an element, with its part of a scale."""
        return 1 / self.per_byte + 1 / self.block


BLOCK_FORMATS = {
    "mxfp8": BlockFormat("float8_e4m3fn", "float8_e8m0fnu", block=32, largest=448),
    "nvfp4": BlockFormat("float4_e2m1fn", "float8_e4m3fn", block=16, largest=6, per_byte=2),
}


@dataclass(frozen=True)
class BlockScaled:
    """Matrix in a block-scaled format."""

    dtype: str
    elements: Any
    """Array of shape (rows, columns) and type `BlockFormat.element`."""
    scales: Any
    """Array of shape (rows, columns / block) and type `BlockFormat.scale`."""

    def __getitem__(self, rows: slice) -> BlockScaled:
        return BlockScaled(self.dtype, self.elements[rows], self.scales[rows])

    def values(self) -> Any:
        """Return the exact values in float32."""
        scales = self.scales.astype(np.float32)
        return self.elements.astype(np.float32) * np.repeat(scales, BLOCK_FORMATS[self.dtype].block, axis=1)

    def stored_elements(self) -> Any:
        """Return the elements as bytes (rows, columns / per_byte); the first of two is in the lower four bits."""
        codes = self.elements.view(np.uint8)
        if BLOCK_FORMATS[self.dtype].per_byte == 1:
            return codes
        return codes[:, 0::2] & 0xF | codes[:, 1::2] << 4

    def stored_scales(self) -> Any:
        """Return the scales as bytes in cuBLASLt's layout, padded with zeros to complete tiles of 128 rows × 4 blocks.

        A tile has 512 consecutive bytes: the scale of row r and block b is at (r mod 32)·16 + (r div 32)·4 + b. Tiles
        are stored by rows of tiles. Source: cuBLAS manual, "1D Block Scaling Factors Layout".
        """
        rows, blocks = self.scales.shape
        row_tiles, column_tiles = -(-rows // TILE_ROWS), -(-blocks // TILE_BLOCKS)
        padded = np.zeros((row_tiles * TILE_ROWS, column_tiles * TILE_BLOCKS), np.uint8)
        padded[:rows, :blocks] = self.scales.view(np.uint8)
        return padded.reshape(row_tiles, 4, 32, column_tiles, 4).transpose(0, 3, 2, 1, 4).reshape(-1)


def stored_scales_bytes(rows: int, columns: int, dtype: str) -> int:
    """Return the number of bytes of `BlockScaled.stored_scales`."""
    blocks = columns // BLOCK_FORMATS[dtype].block
    return -(-rows // TILE_ROWS) * TILE_ROWS * -(-blocks // TILE_BLOCKS) * TILE_BLOCKS


def quantize(x: Any, dtype: str) -> BlockScaled:
    """Round a matrix (rows, columns) of float32 to a block-scaled format; columns must be a multiple of the block."""
    import ml_dtypes

    kind = BLOCK_FORMATS[dtype]
    blocks = x.reshape(len(x), -1, kind.block)
    least = np.abs(blocks).max(axis=2, initial=0) / np.float32(kind.largest)
    if kind.scale == "float8_e8m0fnu":
        mantissas, exponents = np.frexp(least)  # least = mantissa · 2^exponent with 0.5 ≤ mantissa < 1
        least = np.ldexp(np.float32(1), np.clip(exponents - (mantissas == 0.5), -127, 127))
    scales = least.astype(getattr(ml_dtypes, kind.scale))
    factors = scales.astype(np.float32)[..., None]
    scaled = np.divide(blocks, factors, out=np.zeros_like(blocks), where=factors > 0)
    elements = np.clip(scaled, -kind.largest, kind.largest).astype(getattr(ml_dtypes, kind.element))
    return BlockScaled(dtype, elements.reshape(x.shape), scales)


def stacked(parts: Sequence[BlockScaled]) -> BlockScaled:
    """Return the rows of all parts as one matrix."""
    elements, scales = (np.concatenate([getattr(part, name) for part in parts]) for name in ("elements", "scales"))
    return BlockScaled(parts[0].dtype, elements, scales)
