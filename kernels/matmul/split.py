"""Split-K: if C has too few tiles to fill a device, several blocks compute a tile, each over a part of k.

Each part leaves its sums, in the precision that it adds in, in a workspace of (parts, batch, m′, n′) elements, and a
second kernel adds them up in the order of the parts, so that the same input gives the same bits. There are no atomics.
The workspace is written and read once: 2·parts·m′·n′ elements, against (m′ + n′)·k for A and B.

The second kernel is the same for all our implementations: a block is `ADDERS` warps, each lane of which has 16 bytes of
the sums to add. Warp w adds up the parts w, w + ADDERS, w + 2·ADDERS, …, and the first warp adds up what the others
left in shared memory, in their order. So even a small C has many reads under way.
"""

from __future__ import annotations

WARP = 32
ADDERS = 8
"""Warps of a block that adds up."""
ADD_THREADS = ADDERS * WARP


def parts_of(tiles: int, slices: int, blocks_at_once: int, fewest: int) -> int:
    """Return into how many parts to split the `slices` of k, which a block takes in turn; 1 means not at all.

    There are as many as blocks run at once for each of the `tiles` of all matrices, so that one wave of blocks does it
    all, but each part has at least the `fewest` slices that are worth a block's beginning and end. No part is empty
    where each has `slices_each` slices.
    """
    most = max(1, min(blocks_at_once // tiles, slices // fewest))
    return -(-slices // slices_each(slices, most))


def slices_each(slices: int, parts: int) -> int:
    """Return the slices of each part but the last, which may have fewer."""
    return -(-slices // parts)


def workspace_bytes(parts: int, elements: int, itemsize: int) -> int:
    """Return the bytes of the parts' sums for that many elements of C, the whole batch's; 0 where nothing is split."""
    return parts * elements * itemsize if parts > 1 else 0


def adding_blocks(elements: int, itemsize: int) -> int:
    """Return how many blocks add up the parts of that many elements, a multiple of 16 bytes' worth: 512 bytes each."""
    return -(-elements * itemsize // (WARP * 16))
