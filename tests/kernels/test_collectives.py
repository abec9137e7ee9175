"""Collectives: every rank has the expected result, and wrong results fail the verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.collectives import OPERATIONS, cpu_gloo, cpu_mpi, reference
from accelbench.kernels.collectives.messages import ALL_TO_ALL, ITEMSIZE, PARTED, bus_factor, message
from accelbench.kernels.collectives.reference import expected, numbers, tolerance
from accelbench.kernels.collectives.task import HostArrays, Run, make_task
from accelbench.kernels.lib import pytorch
from accelbench.kernels.lib.ranks import mpi_process
from accelbench.kernels.lib.ranks.lockstep import Lockstep
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.verification import relative_error
from tests.kernels.in_ranks import verified

ranks_, sizes = st.integers(2, 64), st.integers(8, 1 << 30)
op_s = st.sampled_from(OPERATIONS)


def point(op: str, size: int, impl: str = "gloo") -> Point:
    return Point("collectives", "cpu", {"op": op, "impl": impl, "bytes": size, "processes": 2}, seed=7)


# Size of a message, and the share of it that a link carries.


@given(op=op_s, size=sizes, ranks=ranks_)
def test_a_message_is_divided_evenly_and_completely(op: str, size: int, ranks: int) -> None:
    found = message(op, size, ranks)
    part = min(found.source, found.target)
    assert max(found.source, found.target) == part * (ranks if op in PARTED else 1)
    assert found.source % ranks == 0 or op != ALL_TO_ALL
    assert size <= found.bytes < size + ITEMSIZE * (ranks if op in (*PARTED, ALL_TO_ALL) else 1)
    assert part > 0


@given(op=op_s, exponent=st.integers(3, 30))
def test_a_power_of_two_is_not_rounded_for_two_ranks(op: str, exponent: int) -> None:
    assert message(op, 1 << exponent, 2).bytes == 1 << exponent


def sent_in_a_ring(op: str, ranks: int) -> float:
    """Return the traffic from each rank to the next one, in messages, by simulation of the ring algorithm.

    Part p of the sum starts at rank p, each rank adds its term, and the last rank has the complete part; then the
    complete parts pass around the ring. Each rank sends one of n parts in each of the n−1 steps of both phases.
    """
    sent = 0
    have = [{part: {rank} for part in range(ranks)} for rank in range(ranks)]  # ranks with a term in each partial sum
    if op in ("all-reduce", "reduce-scatter"):
        for step in range(ranks - 1):
            moved = [(rank, (rank - step) % ranks) for rank in range(ranks)]
            terms = [set(have[rank][part]) for rank, part in moved]
            for (rank, part), more in zip(moved, terms, strict=True):
                have[(rank + 1) % ranks][part] |= more
            sent += 1
        assert all(have[rank][(rank + 1) % ranks] == set(range(ranks)) for rank in range(ranks))
    if op in ("all-reduce", "all-gather"):
        whole = [{(rank + 1) % ranks} for rank in range(ranks)]
        for step in range(ranks - 1):
            for rank, part in [(rank, (rank + 1 - step) % ranks) for rank in range(ranks)]:
                assert part in whole[rank]
                whole[(rank + 1) % ranks].add(part)
            sent += 1
        assert all(parts == set(range(ranks)) for parts in whole)
    return sent / ranks


@given(op=st.sampled_from(("all-reduce", *PARTED)), ranks=st.integers(2, 24))
def test_the_bus_factor_is_the_traffic_of_a_ring(op: str, ranks: int) -> None:
    assert bus_factor(op, ranks) == pytest.approx(sent_in_a_ring(op, ranks))


@given(ranks=ranks_)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(ranks: int) -> None:
    assert bus_factor("all-reduce", ranks) == bus_factor("reduce-scatter", ranks) + bus_factor("all-gather", ranks)
    assert bus_factor("broadcast", ranks) == bus_factor("send-recv", ranks) == 1
    assert 0.5 <= bus_factor("all-gather", ranks) < bus_factor("all-gather", ranks + 1) < 1
    assert bus_factor(ALL_TO_ALL, ranks) == pytest.approx(1 - 1 / ranks)  # each rank keeps one of its parts


# Expected result of each rank.


@settings(max_examples=30, deadline=None)
@given(rank=st.integers(0, 5), cuts=st.lists(st.integers(0, 100), max_size=6), size=st.integers(1, 100))
def test_inputs_do_not_depend_on_the_pieces_in_which_they_are_generated(rank: int, cuts: list[int], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "PIECE", 16)
        ends = [0, *sorted(min(cut, size) for cut in cuts), size]
        drawn = [numbers(3, rank, begin, end) for begin, end in pairwise(ends)]
        assert np.array_equal(np.concatenate(drawn), numbers(3, rank, 0, size))
        others = {(seed, other): numbers(seed, other, 0, size).tobytes() for seed in (3, 4) for other in range(6)}
        assert len(set(others.values())) == len(others)


@settings(max_examples=40, deadline=None)
@given(op=op_s, ranks=st.integers(2, 7), size=st.integers(8, 600), cut=st.integers(1, 40))
def test_parts_of_the_expected_result_are_consistent(op: str, ranks: int, size: int, cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "PIECE", 16)
        counts = message(op, size, ranks)
        given_ = [numbers(5, rank, 0, counts.source).astype(np.float64) for rank in range(ranks)]
        summed = np.sum(given_, axis=0)
        for rank in range(ranks):
            whole = {
                "all-reduce": summed,
                "all-gather": np.concatenate(given_),
                "reduce-scatter": summed[rank * counts.target : (rank + 1) * counts.target],
                "broadcast": given_[0],
                "send-recv": given_[rank - 1],
                "all-to-all": np.concatenate([each.reshape(ranks, -1)[rank] for each in given_])
                if op == ALL_TO_ALL
                else None,
            }[op]
            parts = [
                expected(op, 5, rank, ranks, counts.target, begin, min(begin + cut, counts.target))
                for begin in range(0, counts.target, cut)
            ]
            assert np.allclose(np.concatenate([values for values, _ in parts]), whole, rtol=1e-14, atol=1e-14)


@settings(max_examples=50, deadline=None)
@given(ranks=st.integers(2, 64), seed=st.integers(0, 1 << 20))
def test_a_float32_sum_in_any_order_is_within_the_tolerance_and_a_lost_term_is_not(ranks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = rng.standard_normal((ranks, 500), dtype=np.float32)
    right, scale = terms.astype(np.float64).sum(axis=0), np.abs(terms.astype(np.float64)).sum(axis=0)
    added = np.zeros(500, np.float32)
    for rank in rng.permutation(ranks):
        added += terms[rank]
    limit = tolerance("all-reduce", ranks)
    assert relative_error(added, right, scale) <= limit
    assert relative_error(added - terms[0], right, scale) > limit
    assert tolerance("all-gather", ranks) == 0


# Wrong results fail.


@dataclass
class Table:
    """Shared memory of the ranks, which are threads of this process."""

    ranks: int
    given: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = Barrier(self.ranks)


class OnTable(HostArrays):
    """Correct collectives through a `Table`, with an injected fault."""

    def __init__(self, table: Table, here: World, fault: str) -> None:
        self._table, self._here, self._fault = table, here, fault
        self._previous: Any = None

    def operation(self, op: str, source: Any, target: Any) -> Run:
        table, rank, ranks = self._table, self._here.rank, self._here.size

        def answer() -> Any:
            summed = np.sum([table.given[other] for other in range(ranks)], axis=0, dtype=np.float32)
            return {
                "all-reduce": lambda: summed,
                "all-gather": lambda: np.concatenate([table.given[other] for other in range(ranks)]),
                "reduce-scatter": lambda: summed[rank * len(target) : (rank + 1) * len(target)],
                "broadcast": lambda: table.given[0],
                "send-recv": lambda: table.given[(rank - 1) % ranks],
                "all-to-all": lambda: np.concatenate(
                    [table.given[other].reshape(ranks, -1)[rank] for other in range(ranks)]
                ),
            }[op]()

        def once() -> None:
            gives = np.array(target if op == "broadcast" else source)
            before = {other: table.given.get(other, np.zeros_like(gives)) for other in range(ranks)} | {rank: gives}
            table.barrier.wait()  # all have read before any writes
            table.given[rank] = gives
            table.barrier.wait()
            found = np.array(answer())
            if rank == ranks - 1:
                found = self._spoil(op, found, source, before)
            target[:] = found
            table.barrier.wait()

        def run(loops: int) -> None:
            for _ in range(loops):
                once()

        return run

    def _spoil(self, op: str, found: Any, source: Any, before: dict[int, Any]) -> Any:
        previous, self._previous = self._previous, np.array(found)
        match self._fault:
            case "unsynchronised":  # summed before the other ranks have written
                return np.sum(list(before.values()), axis=0, dtype=np.float32)
            case "unsynchronised in its last element":
                found[-1] = sum(float(each[-1]) for each in before.values())
            case "the previous result":
                return found if previous is None else previous
            case "one element not written":
                found[len(found) // 2] = np.nan
            case "one element slightly off":
                found[-1] *= np.float32(1 + 2**-20)
            case "parts in another order":
                return np.roll(found, len(found) // self._here.size)
            case "a rank omitted":
                return found - before[self._here.rank]
            case "summed in half precision":
                return found.astype(np.float16).astype(np.float32)
            case "nothing done":
                return np.array(source) if op == "all-reduce" else np.full_like(found, np.nan)
        return found


def on_table(op: str, size: int, ranks: int, fault: str = "none") -> Callable[[World], Task]:
    table = Table(ranks)

    def prepare(here: World) -> Task:
        return make_task(point(op, size), OnTable(table, here, fault), Lockstep(here), here)

    return prepare


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize(("size", "ranks"), [(8, 2), (1000, 2), (1000, 3), (3 << 20, 2)])
def test_a_correct_collective_passes(op: str, size: int, ranks: int) -> None:
    outcome = verified(ranks, on_table(op, size, ranks), times=2)
    assert outcome.passed, outcome


FAULTS = [
    "unsynchronised",
    "unsynchronised in its last element",
    "the previous result",
    "one element not written",
    "one element slightly off",
    "a rank omitted",
    "summed in half precision",
    "nothing done",
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("size", [8, 1000, 3 << 20])
def test_a_wrong_all_reduce_on_one_rank_fails(fault: str, size: int) -> None:
    outcome = verified(3, on_table("all-reduce", size, 3, fault), times=2)
    assert not outcome.passed, outcome
    assert "rank 2" in outcome.method


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize(
    "fault", ["the previous result", "one element not written", "one element slightly off", "nothing done"]
)
def test_any_wrong_collective_fails(op: str, fault: str) -> None:
    outcome = verified(2, on_table(op, 1000, 2, fault), times=2)
    assert not outcome.passed, outcome


@pytest.mark.parametrize("op", ["all-gather", ALL_TO_ALL])
def test_parts_in_another_order_fail(op: str) -> None:
    assert not verified(3, on_table(op, 1200, 3, "parts in another order")).passed


# Reasons of skipped points.


def test_ranks_without_an_mpi_launcher_are_skipped_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mpi_process.ADDRESS, raising=False)
    monkeypatch.setattr(mpi_process, "world", lambda: World(rank=1, size=2, local_rank=1, local_size=2))
    monkeypatch.setattr(mpi_process, "find_spec", lambda name: object())
    with pytest.raises(Skip, match="'mpirun -n 2 accelbench run collectives --param impl=mpi'"):
        cpu_mpi.prepare(point("all-reduce", 8, "mpi"))


def test_a_missing_mpi4py_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_process, "find_spec", lambda name: None)
    with pytest.raises(Skip, match=r"accelbench\[mpi\]"):
        cpu_mpi.prepare(point("all-reduce", 8, "mpi"))


def test_a_missing_pytorch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(pytorch, "import_module", missing)
    with pytest.raises(Skip, match=r"accelbench\[torch\]"):
        cpu_gloo.prepare(point("all-reduce", 8))


def test_too_little_memory_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.machine.free_memory.available_bytes", lambda: 1 << 20)
    monkeypatch.setattr(cpu_mpi, "world", lambda: World(rank=0, size=2, local_size=2))
    with pytest.raises(Skip, match="6 MiB"):
        cpu_mpi.prepare(point("all-gather", 1 << 20, "mpi"))
