"""Tests of the schedule: repetitions are interleaved and shuffled by the seed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accelbench.execution.schedule import ScheduledRun, schedule
from accelbench.profiling.records.point import Point

KERNELS = [Point("kernel", "cpu", {"n": n}) for n in range(8)]
TRAININGS = [Point("training", "cpu", {"n": n}, backend="jax") for n in range(3)]
plans = st.lists(st.sampled_from(KERNELS + TRAININGS), unique_by=str)


@given(plans, st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_every_repetition_of_every_point_is_scheduled_once(
    plan: list[Point], kernels: int, trainings: int, seed: int
) -> None:
    def rounds_of(point: Point) -> int:
        return trainings if point.backend else kernels

    runs = schedule(plan, rounds_of, seed)
    wanted = {(str(point), number) for point in plan for number in range(1, rounds_of(point) + 1)}
    assert len(runs) == len(wanted)
    assert {(str(scheduled.point), scheduled.round) for scheduled in runs} == wanted


@given(plans, st.integers(2, 6), st.integers(0, 99))
def test_repetitions_are_in_order(plan: list[Point], rounds: int, seed: int) -> None:
    numbers = [scheduled.round for scheduled in schedule(plan, lambda point: rounds, seed)]
    assert numbers == sorted(numbers)


@given(plans, st.integers(2, 6), st.integers(0, 99))
def test_training_workloads_follow_the_kernels_of_the_same_repetition(
    plan: list[Point], rounds: int, seed: int
) -> None:
    runs = schedule(plan, lambda point: rounds, seed)
    assert runs == sorted(runs, key=lambda scheduled: (scheduled.round, scheduled.point.backend is not None))


def order(seed: int, rounds: int, number: int) -> list[Point]:
    return [scheduled.point for scheduled in schedule(KERNELS, lambda point: rounds, seed) if scheduled.round == number]


def test_each_repetition_has_its_own_order_determined_by_the_seed() -> None:
    orders = [[str(point) for point in order(seed, 3, number)] for seed in (1, 2) for number in (1, 2, 3)]
    assert len({tuple(found) for found in orders}) == 6
    assert order(1, 3, 2) == order(1, 3, 2)


def test_more_repetitions_do_not_change_the_order_of_the_first_ones() -> None:
    assert order(1, 3, 2) == order(1, 5, 2)


def test_one_repetition_keeps_the_order_of_the_plan() -> None:
    assert schedule(KERNELS, lambda point: 1, seed=3) == [ScheduledRun(point, 1) for point in KERNELS]


def test_a_training_workload_with_one_repetition_is_in_the_first() -> None:
    runs = schedule([*TRAININGS, *KERNELS], lambda point: 1 if point.backend else 3, seed=1)
    assert {scheduled.round for scheduled in runs if scheduled.point.backend} == {1}
    assert len(runs) == len(TRAININGS) + 3 * len(KERNELS)
