"""Independent count of the tree below a placement, without the optimisations of the fast searches.

Columns and diagonals are boolean arrays in the coordinates of the complete board, and queens are tried on every square
of a row. The search uses no bit shifts, no steps over rows and no border tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.threads import compiled
from accelbench.kernels.treesearch.nqueens.borders import Tasks, border_queens
from accelbench.kernels.treesearch.nqueens.prefixes import Prefixes


def recount_prefix(prefixes: Prefixes, task: int) -> tuple[int, int]:
    """Return (nodes, solutions) below one prefix."""
    board = Board(prefixes.queens)
    board.attack(prefixes.depth, 0, prefixes.columns[task], prefixes.left[task], prefixes.right[task])
    return board.count(np.arange(prefixes.depth, prefixes.queens), look_ahead=1)


def recount_task(tasks: Tasks, task: int) -> tuple[int, int]:
    """Return (nodes, solutions) below one task, without the factor for symmetry."""
    queens, positions = tasks.borders.queens, tasks.borders.positions[tasks.border[task]]
    board = Board(queens)
    for row, column in border_queens(queens, positions):
        board.place(int(row), int(column))
    rows = np.array([y for y in range(1, queens - 1) if y not in positions[2:]][tasks.depth :])
    board.attack(int(rows[0]), 1, tasks.columns[task], tasks.left[task], tasks.right[task])
    return board.count(rows, tasks.look_ahead)


class Board:
    """Attacked columns and diagonals of a board."""

    def __init__(self, queens: int) -> None:
        self.columns = np.zeros(queens, np.bool_)
        self.rising = np.zeros(2 * queens, np.bool_)
        """Attacked diagonals, by row + column."""
        self.falling = np.zeros(2 * queens, np.bool_)
        """Attacked diagonals, by row − column + N."""

    def place(self, row: int, column: int) -> None:
        """Put a queen on a square."""
        self.columns[column] = True
        self.rising[row + column] = True
        self.falling[row - column + len(self.columns)] = True

    def attack(self, row: int, first: int, columns: int, left: int, right: int) -> None:
        """Mark the columns and diagonals attacked in a row according to a search state; bit 0 is the column `first`."""
        queens = len(self.columns)
        for column in range(first, queens - first):
            bit = 1 << (column - first)
            self.columns[column] |= bool(int(columns) & bit)
            self.falling[row - column + queens] |= bool(int(left) & bit)
            self.rising[row + column] |= bool(int(right) & bit)

    def count(self, rows: Any, look_ahead: int) -> tuple[int, int]:
        """Return (nodes, solutions) of a search over one or more rows."""
        nodes, solutions = _count(rows, self.columns, self.rising, self.falling, look_ahead)
        return int(nodes), int(solutions)


@compiled
def _next_free(row: int, column: int, columns: Any, rising: Any, falling: Any) -> int:
    """Return the first column from `column` on with a free square in the row; N if there is none."""
    queens = len(columns)
    while column < queens and (columns[column] or rising[row + column] or falling[row - column + queens]):
        column += 1
    return column


@compiled
def _count(rows: Any, columns: Any, rising: Any, falling: Any, look_ahead: int) -> Any:
    nodes, solutions = 0, 0
    queens = len(columns)
    tried = np.full(len(rows), -1)  # column of the queen in each row
    k = 0
    while k >= 0:
        row = rows[k]
        column = tried[k]
        if column >= 0:
            columns[column] = rising[row + column] = falling[row - column + queens] = False
        column = _next_free(row, column + 1, columns, rising, falling)
        if column == queens:
            tried[k] = -1
            k -= 1
            continue
        tried[k] = column
        columns[column] = rising[row + column] = falling[row - column + queens] = True
        nodes += 1
        k += 1
        if k == len(rows):
            solutions += 1
            k -= 1
            continue
        for following in range(k, min(k + look_ahead, len(rows))):
            if _next_free(rows[following], 0, columns, rising, falling) == queens:
                k -= 1
                break
    return nodes, solutions
