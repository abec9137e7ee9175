"""Flow shop branch and bound: the known trees are reproduced, and a lost node fails the verification."""

from __future__ import annotations

import itertools
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu.threads import compiled
from accelbench.kernels.treesearch import sharing
from accelbench.kernels.treesearch.flowshop import cpu_sharing, flowshop
from accelbench.kernels.treesearch.flowshop.bounds import LANES, bound_children
from accelbench.kernels.treesearch.flowshop.instances import NODES, Instance, draw_times, find_instance
from accelbench.profiling.benchmark import REGISTRY
from accelbench.profiling.records.point import Point

# The first instance, from the comment of the public generator program: times of each job on the five machines.
TA001 = """
54 79 16 66 58  83 3 89 58 56  15 11 49 31 20  71 99 15 68 85  77 56 89 78 53  36 70 45 91 35  53 99 60 13 53
38 60 23 59 41  27 5 57 49 69  87 56 64 85 13  76 3 7 85 86  91 61 1 9 72  14 73 63 39 8  29 75 41 41 49
12 47 63 56 47  77 14 47 40 87  32 21 26 54 58  87 86 75 77 18  68 5 77 51 68  94 77 40 31 28
"""


def point(instance: int) -> Point:
    return Point("flowshop", "cpu", {"impl": "sharing", "instance": instance})


def makespan(times, order) -> int:
    """Return the time at which the last machine finishes the last job."""
    ends = [0] * len(times)
    for job in order:
        free = 0
        for machine, row in enumerate(times):
            free = ends[machine] = max(free, ends[machine]) + int(row[job])
    return ends[-1]


def count(instance: Instance) -> int:
    """Return the number of nodes by plain recursion, with bounds from the definition; it shares only the times."""
    times = instance.times.tolist()
    machines, jobs = range(instance.machines), range(instance.jobs)
    tails = [min(sum(times[k][j] for k in machines if k > m) for j in jobs) for m in machines]

    def below(scheduled: list[int]) -> int:
        front = [makespan(times[: m + 1], scheduled) for m in machines]
        nodes = 0
        for job in set(jobs) - set(scheduled):
            order = [*scheduled, job]
            front = [makespan(times[: m + 1], order) for m in machines]
            bound = end = 0
            for m in machines:
                end = max(end, front[m] + sum(times[m][j] for j in jobs if j not in order))
                bound = max(bound, end + tails[m])
            if bound < instance.optimum:
                nodes += 1 + below(order)
        return nodes

    return below([])


def test_the_first_instance_is_the_published_one():
    np.testing.assert_array_equal(find_any(1).times.T, np.array(TA001.split(), int).reshape(20, 5))


def find_any(number: int) -> Instance:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NODES, number, NODES.get(number, 0))
        return find_instance(number)


@pytest.mark.parametrize("number", range(1, 21))
def test_times_are_those_of_the_generator_with_schrage_s_division_and_a_fraction(number):
    instance = find_any(number)
    seed, expected = instance.seed, []
    for _ in range(instance.machines * instance.jobs):
        seed = 16807 * (seed % 127773) - 2836 * (seed // 127773)
        seed += 2147483647 if seed < 0 else 0
        expected.append(1 + int(seed / 2147483647 * 99))
    np.testing.assert_array_equal(instance.times, np.reshape(expected, (instance.machines, 20)))
    assert instance.machines == (5 if number <= 10 else 10)


def test_the_instances_of_the_axis_are_those_with_known_trees():
    assert REGISTRY["flowshop"].choices["instance"] == tuple(sorted(NODES))


@pytest.mark.parametrize("number", [21, 0, -1, 121])
def test_an_instance_whose_tree_is_not_known_is_not_found(number):
    with pytest.raises(KeyError):
        find_instance(number)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "nodes"), {3: 2573133, 14: 2573652}.items())
def test_the_published_counts_are_reproduced(number, nodes):
    verification = flowshop(point(number)).verify()
    assert verification.passed, verification
    assert verification.found == f"{nodes} nodes"


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in NODES if NODES[n] < 20_000_000])
def test_every_other_known_tree_is_counted_again(number):
    assert flowshop(point(number)).verify().passed


@pytest.mark.needs("gcc")
def test_the_c_version_that_the_search_is_compared_with_counts_the_same(tmp_path):
    source = Path(__file__).parents[1] / "baselines" / "flowshop.c"
    subprocess.run(["gcc", "-O3", "-march=native", source, "-o", tmp_path / "flowshop"], check=True)
    for number in (3, 14, 19):
        instance = find_instance(number)
        given = map(str, (instance.machines, instance.seed, instance.optimum))
        output = subprocess.run([tmp_path / "flowshop", *given], check=True, capture_output=True, text=True)
        assert int(output.stdout.split()[0]) == NODES[number]


@pytest.mark.parametrize("number", [n for n in NODES if NODES[n] < 1000])
def test_the_smallest_trees_follow_from_the_definitions(number):
    assert count(find_instance(number)) == NODES[number]


@given(
    machines=st.integers(1, 6), jobs=st.integers(1, 6), seed=st.integers(1, 2**31 - 2), beyond=st.integers(-200, 200)
)
@settings(deadline=None, max_examples=60)
def test_any_small_shop_is_counted_like_plain_recursion(machines, jobs, seed, beyond):
    times = draw_times(seed, machines, jobs)
    best = min(makespan(times, order) for order in itertools.permutations(range(jobs)))
    shop = Instance(0, machines, seed, max(best + min(beyond, 0), 0), nodes=0, jobs=jobs)
    shop = Instance(0, machines, seed, shop.optimum, count(shop), jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_sharing, "find_instance", lambda number: shop)
        verification = flowshop(point(0)).verify()
    assert verification.passed, verification


@pytest.mark.parametrize("jobs", [1, 5, 31, 32])
@given(machines=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_the_bounds_of_all_children_agree_with_single_bounds(jobs, machines, seed):
    rng = np.random.default_rng(seed)
    times = np.zeros((machines, LANES), np.int16)
    times[:, :jobs] = rng.integers(1, 100, (machines, jobs))
    tails, front = rng.integers(0, 2000, (2, machines)).astype(np.int16)
    remain = (times.sum(axis=1) + rng.integers(0, 100)).astype(np.uint32)
    optimum = np.int16(rng.integers(2000, 6000))
    ends = np.full(machines * LANES, -1, np.int16)
    state = front.astype(np.uint32) | (remain << 16).astype(np.uint32)
    kept = run_bound_children(times.reshape(-1), tails, state, optimum, ends)
    for job in range(jobs):
        end = busy = bound = 0
        for m in range(machines):
            end = max(end, int(front[m])) + int(times[m, job])
            assert ends[m * LANES + job] == end
            busy = max(busy, end + int(remain[m]) - int(times[m, job]))
            bound = max(bound, busy + int(tails[m]))
        assert bool(kept >> job & 1) == (bound < optimum)


@compiled
def run_bound_children(times, tails, state, optimum, ends):
    return bound_children(times, tails, state, optimum, ends)


def test_one_node_more_or_less_fails():
    instance = find_instance(14)
    assert instance.verify(instance.nodes).passed
    assert not instance.verify(instance.nodes + 1).passed
    assert not instance.verify(instance.nodes - 1).passed


def test_a_bound_that_prunes_too_much_or_too_little_fails(monkeypatch):
    for wrong in (-1, 1):
        instance = find_instance(3)
        bent = Instance(3, 5, instance.seed, instance.optimum + wrong, instance.nodes)
        monkeypatch.setattr(cpu_sharing, "find_instance", lambda number, bent=bent: bent)
        assert not flowshop(point(3)).verify().passed


def test_a_thread_that_leaves_no_count_fails(monkeypatch):
    honest = cpu_sharing.search_all

    def forgets_the_last(*arguments):
        honest(*arguments[:-1], arguments[-1][:-1])

    monkeypatch.setattr(cpu_sharing, "search_all", forgets_the_last)
    assert not flowshop(point(3)).verify().passed


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("capacity", [LANES, cpu_sharing.CAPACITY])
def test_threads_that_share_work_count_every_node_once(threads, capacity):
    instance = find_instance(3)
    times, tails = cpu_sharing.padded_times(instance), instance.tails.astype(np.int16)
    first = cpu_sharing.empty_schedule(instance)
    pool, control, stacks, results = sharing.new_search(first, threads, capacity)
    results.fill(-1)
    sharing.begin(first, pool, control)

    def part(thread):
        arguments = times, tails, np.int16(instance.optimum), pool, control, stacks[thread], results[thread]
        return threading.Thread(target=cpu_sharing.search, args=arguments)

    running = [part(thread) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert instance.verify(int(results[:, 0].sum())).passed
    assert [control[place] for place in (sharing.LOCK, sharing.POOLED, sharing.WORKING)] == [0, 0, 0]
