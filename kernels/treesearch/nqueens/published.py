"""Known counts of the N-Queens problem on an N×N board.

`SOLUTIONS`: number of all placements of N queens, including symmetric ones (OEIS A000170). `NODES`: number of queens
placed by a row-by-row search without symmetry that places only unattacked queens, that is, the nodes of its tree
without the root. Those for N = 15–18 are published; those for 1–14 were counted by a brute-force search of this suite,
and `tests/kernels/test_nqueens_published.py` counts them again.

`NODES_INSIDE_BORDERS`: number of nodes of the tree described in `borders.py`, by rows looked ahead. Because no
published search uses the same tree, these were counted by this suite, by searches that found the published number of
solutions. `tests/kernels/test_nqueens_borders.py` counts them again up to N = 13, and up to 11 by the plain search of
`recount.py`.
"""

from __future__ import annotations

SOLUTIONS = dict(
    enumerate(
        (
            1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512, 95815104, 666090624,
            4968057848, 39029188884, 314666222712, 2691008701644,
        ),
        start=1,
    )
)  # fmt: skip

NODES = dict(
    enumerate(
        (
            1, 2, 5, 16, 53, 152, 551, 2056, 8393, 35538, 166925, 856188, 4674889, 27358552, 171129071, 1141190302,
            8017021931, 59365844490,
        ),
        start=1,
    )
)  # fmt: skip

NODES_INSIDE_BORDERS = {
    1: dict(
        enumerate(
            (
                0, 0, 0, 0, 5, 11, 67, 293, 1433, 6404, 32028, 164258, 888586, 5250817, 32042916, 215108697,
                1472550392, 11023714775, 84137964454, 690038576343,
            ),
            start=1,
        )
    ),
    2: dict(
        enumerate(
            (
                0, 0, 0, 0, 3, 7, 52, 231, 1214, 5344, 26797, 137273, 739862, 4333836, 26304655, 175304457,
                1193762769, 8870878595, 67399576230, 549657428345,
            ),
            start=1,
        )
    ),
}  # fmt: skip
