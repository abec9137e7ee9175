"""Split-K: if C has too few tiles to fill a device, several blocks compute a tile, each for a part of k.

Each part writes its partial sums, in the precision of accumulation, to a workspace of (parts, batch, m′, n′) elements.
A second kernel adds the parts in a fixed order, without atomics, so that results are reproducible bit for bit. The
workspace is written and read once: 2·parts·m′·n′ elements, compared with (m′ + n′)·k for A and B.

The second kernel is the same for all implementations: a block has `ADDERS` warps, and each lane adds 16 bytes of the
sums. Warp w adds the parts w, w + ADDERS, w + 2·ADDERS, … and writes the result to shared memory; the first warp adds
these in order. So even a small C has many loads in flight.
"""

from __future__ import annotations

WARP = 32
ADDERS = 8
"""Warps of a block of the second kernel."""
ADD_THREADS = ADDERS * WARP


def parts_of(tiles: int, slices: int, blocks_at_once: int, fewest: int) -> int:
    """Return the number of parts of k, which has `slices` slices; 1 means no split.

    The number is `blocks_at_once` // `tiles` (tiles of all matrices), so that all blocks run in one wave, but limited
    so that each part has at least `fewest` slices, the minimum that amortises the prologue and epilogue of a block. No
    part is empty if each has `slices_each` slices.
    """
    most = max(1, min(blocks_at_once // tiles, slices // fewest))
    return -(-slices // slices_each(slices, most))


def slices_each(slices: int, parts: int) -> int:
    """Return the number of slices per part; the last part may have fewer."""
    return -(-slices // parts)


def workspace_bytes(parts: int, elements: int, itemsize: int) -> int:
    """Return the bytes of the partial sums for `elements` elements of C in the whole batch; 0 for one part."""
    return parts * elements * itemsize if parts > 1 else 0


def adding_blocks(elements: int, itemsize: int) -> int:
    """Return the number of blocks of the second kernel for `elements` elements of C: 512 bytes per block."""
    return -(-elements * itemsize // (WARP * 16))
