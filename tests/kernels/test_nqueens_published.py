from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.treesearch.nqueens.prefixes import MAX_QUEENS, enumerate_prefixes, next_row
from accelbench.kernels.treesearch.nqueens.published import NODES, SOLUTIONS


def brute_force(queens: int) -> tuple[int, int]:
    """Return (nodes, solutions) by comparing each new queen with all earlier ones, without shared code."""
    nodes = solutions = 0
    pending: list[tuple[int, ...]] = [()]
    while pending:
        placed = pending.pop()
        for column in range(queens):
            row = len(placed)
            if all(column != c and abs(column - c) != row - r for r, c in enumerate(placed)):
                nodes += 1
                if row + 1 == queens:
                    solutions += 1
                else:
                    pending.append((*placed, column))
    return nodes, solutions


@pytest.mark.parametrize("queens", range(1, 10))
def test_published_counts_agree_with_a_brute_force_search(queens: int) -> None:
    assert brute_force(queens) == (NODES[queens], SOLUTIONS[queens])


@pytest.mark.parametrize("queens", range(10, 15))
def test_published_counts_agree_with_the_levels_of_the_complete_tree(queens: int) -> None:
    level = (np.zeros(1, np.uint32),) * 3
    nodes = 0
    for _ in range(queens):
        level = next_row(np.uint32((1 << queens) - 1), *level)
        nodes += len(level[0])
    assert (nodes, len(level[0])) == (NODES[queens], SOLUTIONS[queens])


@given(queens=st.integers(1, 10), at_least=st.integers(1, 5000))
def test_prefixes_are_distinct_placements_of_one_queen_per_row(queens: int, at_least: int) -> None:
    prefixes = enumerate_prefixes(queens, at_least)
    assert {int(columns).bit_count() for columns in prefixes.columns} == {prefixes.depth}
    assert prefixes.depth < queens
    assert prefixes.nodes >= len(prefixes) - 1  # the empty board is a prefix, but not a node


@pytest.mark.parametrize("queens", [0, -1, MAX_QUEENS + 1])
def test_a_board_wider_than_a_word_raises_an_error(queens: int) -> None:
    with pytest.raises(ValueError, match="queens"):
        enumerate_prefixes(queens, 1)
