"""Two plain N-Queens searches in Numba, which the suite's own are measured against (`make bench-self`).

Both place one queen per row and keep the board in three words. They are as fast as such a search gets: with a stack of
their own, which was measured to be a fifth faster than recursion, and without a push where nothing is left to
return to. `half_board` searches only the first row's left half, whose mirror images are the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.threads import compiled

ONE = np.uint32(1)


@compiled
def solutions_below(board: Any, columns: Any, left: Any, right: Any, stack: Any) -> int:
    """Solutions below one placement that leaves a row to fill; `stack` is uint32, one row of four words per level."""
    solutions = 0
    height = 0
    free = np.uint32(board & ~(columns | left | right))
    while True:
        if free == 0:
            if height == 0:
                return solutions
            height -= 1
            free, columns = stack[height, 0], stack[height, 1]
            left, right = stack[height, 2], stack[height, 3]
            continue
        queen = np.uint32(free & (~free + ONE))
        free = np.uint32(free ^ queen)
        below_columns = np.uint32(columns | queen)
        if below_columns == board:
            solutions += 1
            continue
        below_left = np.uint32((left | queen) << ONE)
        below_right = np.uint32((right | queen) >> ONE)
        below = np.uint32(board & ~(below_columns | below_left | below_right))
        if below != 0:
            if free != 0:
                stack[height, 0], stack[height, 1] = free, columns
                stack[height, 2], stack[height, 3] = left, right
                height += 1
            free, columns, left, right = below, below_columns, below_left, below_right


@compiled
def textbook(queens: int) -> int:
    """All solutions, one by one."""
    none = np.uint32(0)
    return solutions_below(np.uint32((1 << queens) - 1), none, none, none, np.zeros((32, 4), np.uint32))


@compiled
def half_board(queens: int) -> int:
    """Twice the solutions whose first queen is in the left half, and those with it in the middle; queens ≥ 2.

    Below a first queen in the middle of an odd board, half of the second row is searched, for the same reason.
    """
    board = np.uint32((1 << queens) - 1)
    stack = np.zeros((32, 4), np.uint32)
    solutions = 0
    for column in range(queens // 2):
        queen = np.uint32(ONE << column)
        solutions += 2 * solutions_below(board, queen, np.uint32(queen << ONE), np.uint32(queen >> ONE), stack)
    if queens % 2 == 1:
        middle = np.uint32(ONE << (queens // 2))
        for column in range(queens // 2 - 1):
            queen = np.uint32(ONE << column)
            columns = np.uint32(middle | queen)
            left = np.uint32((middle << ONE | queen) << ONE)
            right = np.uint32((middle >> ONE | queen) >> ONE)
            solutions += 2 * (1 if columns == board else solutions_below(board, columns, left, right, stack))
    return solutions
