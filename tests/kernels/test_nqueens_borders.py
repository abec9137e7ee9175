"""Border placements and the tree inside them: symmetry is exact, checked by searches without symmetry."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.treesearch.nqueens.borders import (
    MAX_QUEENS,
    STEP_SHIFT,
    border_queens,
    cut,
    describe,
    estimate,
    living,
    next_row,
    place_borders,
    symmetries,
    uncut,
    valid_placements,
)
from accelbench.kernels.treesearch.nqueens.published import NODES_INSIDE_BORDERS, SOLUTIONS
from accelbench.kernels.treesearch.nqueens.recount import recount_task


def squares_of_borders(queens: int) -> set[frozenset[tuple[int, int]]]:
    """Return all sets of nonattacking queens with a queen on each border, by exhaustive search."""
    last = queens - 1
    border = [(y, x) for y, x in product(range(queens), repeat=2) if {y, x} & {0, last}]
    found = set()
    for size in range(1, 5):
        for chosen in combinations(border, size):
            on_all = all(any(square[axis] == end for square in chosen) for axis in (0, 1) for end in (0, last))
            if on_all and not any(
                y == v or x == u or abs(y - v) == abs(x - u) for (y, x), (v, u) in combinations(chosen, 2)
            ):
                found.add(frozenset(chosen))
    return found


def squares(queens: int, positions: np.ndarray) -> list[frozenset[tuple[int, int]]]:
    corners = [np.stack(place, axis=1).tolist() for place in border_queens(queens, positions)]
    return [frozenset(map(tuple, placement)) for placement in zip(*corners, strict=True)]


@pytest.mark.parametrize("queens", range(1, 9))
def test_the_orbits_of_the_representatives_are_all_border_placements_each_once(queens: int) -> None:
    borders = place_borders(queens)
    images = [squares(queens, image) for image in symmetries(queens, borders.positions)]
    orbits = [set(orbit) for orbit in zip(*images, strict=True)]
    assert [len(orbit) for orbit in orbits] == borders.weight.tolist()
    assert sum(len(orbit) for orbit in orbits) == len(set().union(*orbits))
    assert set().union(*orbits) == squares_of_borders(queens)


@pytest.mark.parametrize("queens", [9, 14, 22])
def test_the_weights_add_up_to_the_number_of_border_placements(queens: int) -> None:
    borders = place_borders(queens)
    assert borders.weight.sum() == len(valid_placements(queens))
    assert set(borders.weight.tolist()) == {2, 4, 8}


@pytest.mark.parametrize("queens", [4, 5, 8, 13, 22])
def test_the_row_words_are_the_squares_attacked_by_border_queens(queens: int) -> None:
    borders = place_borders(queens)
    for chosen in np.random.default_rng(queens).integers(0, len(borders), 30):
        (placed,) = squares(queens, borders.positions[[chosen]])
        left = [y for y in range(1, queens - 1) if y not in {row for row, _ in placed}]
        words = [int(word) for word in borders.rows[chosen]]
        assert borders.length[chosen] == len(left)
        assert [word >> STEP_SHIFT for word in words[: len(left)]] == [*np.diff(left), 0][: len(left)]
        assert not any(words[len(left) :])
        for y, word in zip(left, words, strict=False):
            for x in range(1, queens - 1):
                assert bool(word >> (x - 1) & 1) == any(abs(y - v) == abs(x - u) for v, u in placed)
        taken = {x for x in range(1, queens - 1) if int(borders.columns[chosen]) >> (x - 1) & 1}
        assert taken == {x for _, x in placed} - {0, queens - 1}


@pytest.mark.parametrize("queens", range(1, 14))
@pytest.mark.parametrize("look_ahead", [1, 2])
def test_row_by_row_the_tree_has_the_known_nodes_and_solutions(queens: int, look_ahead: int) -> None:
    level = cut(queens, 1, look_ahead)
    while len(level):
        level = next_row(level)
    assert level.solutions == SOLUTIONS[queens]
    assert level.nodes == NODES_INSIDE_BORDERS[look_ahead][queens]


@pytest.mark.parametrize("queens", range(1, 12))
@pytest.mark.parametrize("look_ahead", [1, 2])
@pytest.mark.parametrize("at_least", [1, 1000])
def test_the_plain_search_counts_the_same_below_every_cut(queens: int, look_ahead: int, at_least: int) -> None:
    tasks = cut(queens, at_least, look_ahead)
    below = [recount_task(tasks, task) for task in range(len(tasks))]
    nodes = sum(nodes for nodes, _ in below)
    solutions = sum(int(weight) * found for weight, (_, found) in zip(tasks.weight, below, strict=True))
    assert tasks.nodes + nodes == NODES_INSIDE_BORDERS[look_ahead][queens]
    assert tasks.solutions + solutions == SOLUTIONS[queens]


@settings(deadline=None)
@given(queens=st.integers(5, 12), at_least=st.integers(1, 20_000), look_ahead=st.sampled_from([1, 2]))
def test_tasks_are_living_placements_of_as_many_queens_the_largest_first(
    queens: int, at_least: int, look_ahead: int
) -> None:
    tasks = cut(queens, at_least, look_ahead)
    of_border = tasks.borders.columns[tasks.border]
    assert np.all(np.bitwise_count(tasks.columns & ~of_border) == tasks.depth)
    assert np.all(tasks.columns & of_border == of_border)
    assert np.all(tasks.depth < tasks.borders.length[tasks.border])
    assert len(living(tasks)) == len(tasks)
    assert np.all(np.diff(estimate(tasks)) <= 0)


@pytest.mark.parametrize("at_least", [1, 5000])
def test_the_largest_trees_stand_near_the_front(at_least: int) -> None:
    tasks = cut(11, at_least, look_ahead=2)
    nodes = [recount_task(tasks, task)[0] for task in range(len(tasks))]
    largest = np.argsort(nodes)[-len(tasks) // 20 :]
    assert np.mean(largest) < len(tasks) / 4


def test_the_representatives_have_smaller_trees_than_their_images() -> None:
    chosen = place_borders(10)
    sizes = []
    for image in symmetries(10, chosen.positions):
        level = living(uncut(describe(10, image, chosen.weight), look_ahead=2))
        while len(level):
            level = next_row(level)
        assert level.solutions == SOLUTIONS[10]
        sizes.append(level.nodes)
    assert sizes[0] == NODES_INSIDE_BORDERS[2][10]
    assert sizes[0] < 0.8 * np.mean(sizes)


@pytest.mark.parametrize("queens", [0, -1, MAX_QUEENS + 1])
def test_a_board_wider_than_a_word_raises_an_error(queens: int) -> None:
    with pytest.raises(ValueError, match="queens"):
        place_borders(queens)
