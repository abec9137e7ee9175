"""Symmetry reduction of N-Queens: the queens of the four borders are placed first.

The first and last row and the first and last column of a board hold 3 or 4 queens (a corner belongs to two borders; two
corners attack each other; on a board of one square the square is all four borders). A symmetry of the square maps such
a placement to another one with as many solutions below it. One representative of each orbit is searched, and its
solutions are multiplied by the size of the orbit: 8, or 4 or 2 if a half or quarter turn maps the placement to itself
(1 for a board of one square). So no solution is tested for symmetry.

The remaining rows and columns are the inner board: rows and columns 1 to N−2 without those of border queens. It is
searched row by row, with inner column x as bit x−1 of a 32-bit word. A placement of queens in the first k remaining
rows is a state of four words:

- `border`: index of the border placement;
- `columns`: occupied inner columns, including those of border queens;
- `left`, `right`: inner columns of row k attacked by queens of the rows 0 to k−1 *of the inner board* along diagonals
  to higher and to lower columns.

The columns that border queens attack, from above, below and the sides, depend only on the row. The table `Borders.rows`
contains one word for the k-th remaining row (k from 0):

- bits 0 to N−3: inner columns attacked by border queens in this row;
- bits from `STEP_SHIFT` on: the distance to the next remaining row: 1, or 2 or 3 if rows in between are occupied; 0 for
  the last row.

So the search steps from row k to row k+1 with a queen `q` (one bit of `free`), and `board` = 2^(N−2) − 1:

    step    = rows[border, k] >> STEP_SHIFT
    columns = columns | q
    left    = (left | q) << step
    right   = (right | q) >> step
    free    = board & ~(columns | left | right | rows[border, k + 1])

`board` masks the step bits and bits shifted beyond the board. A queen placed in the last of `Borders.length[border]`
rows completes a solution.

The *tree* of a search consists of the queens that it places on the inner board: one node is one queen on a free square.
With `look_ahead` = 1 the nodes are all valid placements in the first k ≥ 1 remaining rows. With `look_ahead` = 2 the
search continues below a placement only if the next row and the row after it have a free square each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.threads import compiled

MAX_QUEENS = 28
"""Maximum board size: the attacked columns of a row and the step to the next row share 32 bits."""
STEP_SHIFT = 28

ONE = np.uint32(1)


@dataclass(frozen=True)
class Borders:
    """Border placements, one per orbit, as arrays with one element or row per placement."""

    queens: int
    positions: Any
    """int64 (placements, 4): columns of the queens in first and last row, rows of those in first and last column."""
    weight: Any
    """uint32: size of the orbit."""
    columns: Any
    """uint32: inner columns occupied by border queens."""
    length: Any
    """uint32: remaining rows, N−4 without and N−3 with a corner; 0 for a board of one square."""
    rows: Any
    """uint32 (placements, max(N−3, 1)): attacked columns and step of each remaining row; 0 after the last."""

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def board(self) -> Any:
        """All inner columns as uint32."""
        return np.uint32((1 << max(self.queens - 2, 0)) - 1)


@dataclass(frozen=True)
class Tasks:
    """Placements of `depth` queens in the first remaining rows, each the root of a subtree to search."""

    borders: Borders
    look_ahead: int
    depth: int
    border: Any
    """uint32: index into `borders`."""
    columns: Any
    """uint32, like `left` and `right`: the state as described in the module."""
    left: Any
    right: Any
    nodes: int
    """Queens placed on the inner board above the tasks."""
    solutions: int
    """Solutions completed above the tasks, multiplied by the orbit sizes."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def queens(self) -> int:
        return self.borders.queens

    @property
    def weight(self) -> Any:
        """Factor of the solutions below each task, as uint32."""
        return self.borders.weight[self.border]

    def __getitem__(self, chosen: Any) -> Tasks:
        """Return the chosen tasks, in the given order."""
        border, columns, left, right = (array[chosen] for array in (self.border, self.columns, self.left, self.right))
        return replace(self, border=border, columns=columns, left=left, right=right)


def place_borders(queens: int) -> Borders:
    """Return one representative of each orbit of border placements; raise ValueError unless 1 ≤ queens ≤ 28."""
    if not 1 <= queens <= MAX_QUEENS:
        raise ValueError(f"{queens} queens are not supported: choose 1 to {MAX_QUEENS}")
    images = np.array(symmetries(queens, valid_placements(queens)))
    names = images @ queens ** np.arange(3, -1, -1)
    first = names[0] == names.min(axis=0)  # one member of each orbit
    images, names = images[:, first], np.sort(names[:, first], axis=0)
    weight = (1 + np.count_nonzero(np.diff(names, axis=0), axis=0)).astype(np.uint32)
    estimates = [estimate(uncut(describe(queens, image, weight), look_ahead=1)) for image in images]
    return describe(queens, images[np.argmin(estimates, axis=0), np.arange(len(weight))], weight)


def valid_placements(queens: int) -> Any:
    """Return all placements of nonattacking queens on all four borders as int64 (placements, 4)."""
    last = queens - 1
    squares = np.indices((queens,) * 4).reshape(4, -1)
    top, bottom, left, right = squares
    # A corner belongs to two borders: it is the queen of both or of neither.
    valid = ((top == 0) == (left == 0)) & ((top == last) == (right == 0))
    valid &= ((bottom == 0) == (left == last)) & ((bottom == last) == (right == last))
    placed = border_queens(queens, squares.T)
    for i, (y, x) in enumerate(placed):
        for v, u in placed[:i]:
            same = (y == v) & (x == u)
            valid &= same | ((y != v) & (x != u) & (abs(y - v) != abs(x - u)))
    return squares.T[valid]


def border_queens(queens: int, positions: Any) -> list[tuple[Any, Any]]:
    """Return (row, column) of the queens in the first row, last row, first column and last column of each placement."""
    top, bottom, left, right = positions.T
    first, last = np.zeros_like(top), np.full_like(top, queens - 1)
    return [(first, top), (last, bottom), (left, first), (right, last)]


def symmetries(queens: int, positions: Any) -> list[Any]:
    """Return the eight images of the placements under the symmetries of the square, the identity first."""
    images = [positions]
    for _ in range(3):  # a quarter turn takes (y, x) to (x, N−1−y)
        top, bottom, left, right = images[-1].T
        images.append(np.stack([queens - 1 - left, queens - 1 - right, bottom, top], axis=1))
    return images + [image[:, [2, 3, 0, 1]] for image in images]  # mirrored at the main diagonal


def column_bit(queens: int, column: Any) -> Any:
    """Return the bit of an inner column as uint32; 0 for a column outside the inner board."""
    inside = (column >= 1) & (column <= queens - 2)
    return np.where(inside, ONE << np.where(inside, column - 1, 0).astype(np.uint32), 0).astype(np.uint32)


def describe(queens: int, positions: Any, weight: Any) -> Borders:
    """Return the `Borders` of placements, with the tables of their inner boards."""
    length = np.zeros(len(positions), np.uint32)
    rows = np.zeros((len(positions), max(queens - 3, 1)), np.uint32)
    before = np.zeros(len(positions), np.int64)
    for y in range(1, queens - 1):
        here = np.flatnonzero((positions[:, 2] != y) & (positions[:, 3] != y))
        attacked = np.zeros(len(here), np.uint32)
        for v, u in border_queens(queens, positions[here]):
            attacked |= column_bit(queens, u - (y - v)) | column_bit(queens, u + (y - v))
        later = here[length[here] > 0]
        rows[later, length[later] - 1] |= (y - before[later]).astype(np.uint32) << np.uint32(STEP_SHIFT)
        rows[here, length[here]] = attacked
        length[here] += 1
        before[here] = y
    columns = column_bit(queens, positions[:, 0]) | column_bit(queens, positions[:, 1])
    return Borders(queens, positions, weight, columns, length, rows)


def cut(queens: int, at_least: int, look_ahead: int) -> Tasks:
    """Return the tasks of a level of the tree, largest first.

    It is the shallowest level with at least `at_least` tasks, or the widest level, but never the last row.
    """
    level = living(uncut(place_borders(queens), look_ahead))
    while len(level) < at_least and level.depth < queens - 5:
        deeper = next_row(level)
        if len(deeper) < len(level):
            break  # the following levels have fewer tasks
        level = deeper
    return level[np.argsort(-estimate(level), kind="stable")]


def uncut(borders: Borders, look_ahead: int) -> Tasks:
    """Return each border placement as one task, including those with nothing to search."""
    none = np.zeros(len(borders), np.uint32)
    complete = int(borders.weight[borders.length == 0].sum())
    every = np.arange(len(borders), dtype=np.uint32)
    return Tasks(borders, look_ahead, 0, every, borders.columns, none, none, nodes=0, solutions=complete)


def living(tasks: Tasks) -> Tasks:
    """Return the tasks with something to search below them."""
    borders, state = tasks.borders, (tasks.border, tasks.columns, tasks.left, tasks.right)
    return tasks[are_alive(borders.board, borders.rows, borders.length, *state, tasks.depth, tasks.look_ahead)]


def next_row(level: Tasks) -> Tasks:
    """Return the tasks of the next level, with one more queen."""
    borders = level.borders
    state = level.border, level.columns, level.left, level.right, level.depth
    children, placed, finished = place_next(
        borders.board, borders.rows, borders.length, borders.weight, *state, level.look_ahead
    )
    border, columns, left, right = children
    nodes, solutions = level.nodes + int(placed), level.solutions + int(finished)
    return Tasks(borders, level.look_ahead, level.depth + 1, border, columns, left, right, nodes, solutions)


def estimate(tasks: Tasks) -> Any:
    """Return the estimated size of the tree of each task as int64, in an arbitrary unit, for selection and ordering.

    A tree grows in the rows in which its own queens attack few squares, so its size is estimated by the product of the
    currently free squares in the rows of the upper half of the board. The image of a border placement with the smallest
    product has three quarters of the nodes of an average image; the optimal choice would have 7 % fewer (N = 12–15).
    """
    borders = tasks.borders
    until = min(max((tasks.queens - 1) // 2, tasks.depth + 2), borders.rows.shape[1])
    state = tasks.border, tasks.columns, tasks.left, tasks.right
    return products_of_free_squares(borders.board, borders.rows, borders.length, *state, tasks.depth, until)


@compiled
def products_of_free_squares(
    board: Any, rows: Any, length: Any, border: Any, columns: Any, left: Any, right: Any, row: int, until: int
) -> Any:
    """Return for each state the product of the numbers of free columns in the rows from `row` to before `until`."""
    products = np.ones(len(border), np.int64)
    for i, b in enumerate(border):
        rising, falling = left[i], right[i]
        for k in range(row, min(until, length[b])):
            free = free_squares(board, rows[b], k, columns[i], rising, falling)
            count = 0
            while free:
                free &= free - np.uint32(1)
                count += 1
            products[i] *= count
            step = rows[b, k] >> np.uint32(STEP_SHIFT)
            rising, falling = rising << step, falling >> step
    return products


@compiled
def free_squares(board: Any, rows: Any, row: int, columns: Any, left: Any, right: Any) -> Any:
    """Return the free columns of a state in its remaining row `row`."""
    return np.uint32(board & ~(columns | left | right | rows[row]))


@compiled
def is_alive(
    board: Any, rows: Any, length: Any, row: int, columns: Any, left: Any, right: Any, look_ahead: int
) -> bool:
    """Return whether the search continues from a state in a row: rows remain, and the next ones have free squares."""
    if row == length or free_squares(board, rows, row, columns, left, right) == 0:
        return False
    if look_ahead == 1 or row + 1 == length:
        return True
    step = rows[row] >> np.uint32(STEP_SHIFT)
    return bool(free_squares(board, rows, row + 1, columns, left << step, right >> step) != 0)


@compiled
def are_alive(
    board: Any, rows: Any, length: Any, border: Any, columns: Any, left: Any, right: Any, row: int, look_ahead: int
) -> Any:
    """Return `is_alive` for many states in the same row."""
    found = np.empty(len(border), np.bool_)
    for i, b in enumerate(border):
        found[i] = is_alive(board, rows[b], length[b], row, columns[i], left[i], right[i], look_ahead)
    return found


@compiled
def place_next(
    board: Any, rows: Any, length: Any, weight: Any, border: Any, columns: Any, left: Any, right: Any, row: int,
    look_ahead: int,
) -> Any:  # fmt: skip
    """Return the live states with one more queen (four rows of words), the queens placed, the solutions completed."""
    children = np.empty((4, 0), np.uint32)
    placed, finished = 0, 0
    for writing in (False, True):  # first count the states, then write them
        kept, placed, finished = 0, 0, 0
        for i, b in enumerate(border):
            free = free_squares(board, rows[b], row, columns[i], left[i], right[i])
            step = rows[b, row] >> np.uint32(STEP_SHIFT)
            while free:
                queen = np.uint32(free & (~free + np.uint32(1)))
                free ^= queen
                placed += 1
                if row + 1 == length[b]:
                    finished += weight[b]
                    continue
                state = columns[i] | queen, (left[i] | queen) << step, (right[i] | queen) >> step
                if is_alive(board, rows[b], length[b], row + 1, *state, look_ahead):
                    if writing:
                        children[0, kept] = b
                        children[1, kept], children[2, kept], children[3, kept] = state
                    kept += 1
        if not writing:
            children = np.empty((4, kept), np.uint32)
    return children, placed, finished
