"""The schedule: every point's first round, then every point's second, shuffled by the seed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accelbench.execution.schedule import Turn, schedule
from accelbench.profiling.records.point import Point

KERNELS = [Point("kernel", "cpu", {"n": n}) for n in range(8)]
TRAININGS = [Point("training", "cpu", {"n": n}, backend="jax") for n in range(3)]
plans = st.lists(st.sampled_from(KERNELS + TRAININGS), unique_by=str)


@given(plans, st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_every_round_of_every_point_has_its_turn_once(
    plan: list[Point], kernels: int, trainings: int, seed: int
) -> None:
    def rounds_of(point: Point) -> int:
        return trainings if point.backend else kernels

    turns = schedule(plan, rounds_of, seed)
    wanted = {(str(point), number) for point in plan for number in range(1, rounds_of(point) + 1)}
    assert len(turns) == len(wanted)
    assert {(str(turn.point), turn.round) for turn in turns} == wanted


@given(plans, st.integers(2, 6), st.integers(0, 99))
def test_no_point_is_a_round_ahead_of_another(plan: list[Point], rounds: int, seed: int) -> None:
    numbers = [turn.round for turn in schedule(plan, lambda point: rounds, seed)]
    assert numbers == sorted(numbers)


@given(plans, st.integers(2, 6), st.integers(0, 99))
def test_trainings_follow_the_kernels_of_their_round(plan: list[Point], rounds: int, seed: int) -> None:
    turns = schedule(plan, lambda point: rounds, seed)
    assert turns == sorted(turns, key=lambda turn: (turn.round, turn.point.backend is not None))


def order(seed: int, rounds: int, number: int) -> list[Point]:
    return [turn.point for turn in schedule(KERNELS, lambda point: rounds, seed) if turn.round == number]


def test_each_round_has_an_order_of_its_own_that_the_seed_decides() -> None:
    orders = [[str(point) for point in order(seed, 3, number)] for seed in (1, 2) for number in (1, 2, 3)]
    assert len({tuple(found) for found in orders}) == 6
    assert order(1, 3, 2) == order(1, 3, 2)


def test_more_rounds_do_not_change_the_order_of_the_first_ones() -> None:
    assert order(1, 3, 2) == order(1, 5, 2)


def test_where_there_is_one_round_the_plans_order_stays() -> None:
    assert schedule(KERNELS, lambda point: 1, seed=3) == [Turn(point, 1) for point in KERNELS]


def test_a_training_of_one_round_is_measured_in_the_first() -> None:
    turns = schedule([*TRAININGS, *KERNELS], lambda point: 1 if point.backend else 3, seed=1)
    assert {turn.round for turn in turns if turn.point.backend} == {1}
    assert len(turns) == len(TRAININGS) + 3 * len(KERNELS)
