"""UTS: every published count is reproduced, and a lost node fails the verification."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu.threads import compiled
from accelbench.kernels.treesearch import sharing
from accelbench.kernels.treesearch.uts import cpu_sharing, trees, uts
from accelbench.kernels.treesearch.uts.sha1 import (
    DEPTH,
    FERTILE_FROM,
    HASHED,
    HASHED_DEPTH,
    LANES,
    NUMBER,
    RANDOM,
    WORDS,
    count_reached,
    hash_child,
    hash_nodes,
)
from accelbench.kernels.treesearch.uts.trees import (
    RANDOM_VALUES,
    STATE_WORDS,
    TREES,
    Binomial,
    Geometric,
    Tree,
    thresholds_of,
)
from accelbench.profiling.benchmark import REGISTRY
from accelbench.profiling.records.point import Point

SMALL = "T1", "T2", "T3", "T5"
ONE_NODE = Tree("one", Geometric(4, "fixed", 0), seed=19, nodes=1, depth=0, leaves=1)
CHILDLESS = Tree("childless", Binomial(0, 0.5, 2), seed=1, nodes=1, depth=0, leaves=1)
ONLY_CHILDREN = Tree("flat", Binomial(5, 0.0, 2), seed=1, nodes=6, depth=1, leaves=5)

words = st.integers(0, 2**32 - 1)


def point(tree: str) -> Point:
    return Point("uts", "cpu", {"impl": "sharing", "tree": tree})


def count(tree: Tree) -> tuple[int, int, int]:
    """Return nodes, leaves and depth by hashlib and the published formula, without shared code."""
    pending = [(hashlib.sha1(bytes(16) + tree.seed.to_bytes(4, "big")).digest(), 0)]
    nodes = leaves = deepest = 0
    while pending:
        state, depth = pending.pop()
        random = int.from_bytes(state[-4:], "big") & 0x7FFFFFFF
        if isinstance(tree.law, Binomial):
            children = tree.law.root if depth == 0 else tree.law.m if random / 2**31 < tree.law.q else 0
        else:
            children = tree.law.children(depth, random) if depth < tree.law.levels else 0
        nodes, leaves, deepest = nodes + 1, leaves + (children == 0), max(deepest, depth)
        pending += [(hashlib.sha1(state + i.to_bytes(4, "big")).digest(), depth + 1) for i in range(children)]
    return nodes, leaves, deepest


@compiled
def run_hash_child(a, b, c, d, e, child):
    return hash_child(a, b, c, d, e, child)


@compiled
def run_hash_nodes(nodes, column, flip, hashed, first):
    return hash_nodes(nodes, column, flip, hashed, first)


@compiled
def run_count_reached(table, row, column, value):
    return count_reached(table, row, column, value)


@given(message=st.lists(words, min_size=6, max_size=6))
@settings(deadline=None)
def test_one_child_s_state_is_sha1_of_its_parent_s_and_its_number(message):
    expected = hashlib.sha1(np.array(message, ">u4").tobytes()).digest()
    found = run_hash_child(*(np.uint32(word) for word in message))
    assert np.array(found, ">u4").tobytes() == expected


@given(
    seed=words,
    column=st.integers(0, 5),
    flip=st.sampled_from([0, RANDOM_VALUES - 1]),
    first=st.sampled_from([0, HASHED]),
)
@settings(deadline=None)
def test_every_lane_has_its_own_node_and_the_bit_for_its_children(seed, column, flip, first):
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, 2**32, (WORDS, column + LANES + 3), np.uint32)
    nodes[FERTILE_FROM] = rng.integers(0, RANDOM_VALUES, nodes.shape[1], endpoint=True)
    hashed = np.zeros((2 * HASHED + 1, LANES), np.uint32)
    fertile = run_hash_nodes(nodes, column, np.uint32(flip), hashed, first)
    for lane in range(LANES):
        digest = hashlib.sha1(nodes[: NUMBER + 1, column + lane].astype(">u4").tobytes()).digest()
        assert hashed[first : first + STATE_WORDS, lane].astype(">u4").tobytes() == digest
        random = (int.from_bytes(digest[-4:], "big") % RANDOM_VALUES) ^ flip
        assert hashed[first + RANDOM, lane] == random
        assert hashed[first + HASHED_DEPTH, lane] == nodes[DEPTH, column + lane]
        assert bool(fertile >> lane & 1) == (random >= nodes[FERTILE_FROM, column + lane])
    assert fertile >> LANES == 0
    assert not np.delete(hashed, range(first, first + HASHED), axis=0).any()


@given(seed=words, column=st.integers(0, 5), value=words)
@settings(deadline=None)
def test_elements_up_to_a_value_are_counted(seed, column, value):
    table = np.random.default_rng(seed).integers(0, 2**32, (3, column + LANES + 1), np.uint32)
    table[1, column + 1] = value
    expected = (table[1, column : column + LANES] <= value).sum()
    assert run_count_reached(table, 1, column, np.uint32(value)) == expected


def test_the_values_of_the_axis_are_the_trees():
    assert REGISTRY["uts"].choices["tree"] == tuple(TREES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_published_counts_are_reproduced(name):
    verification = uts(point(name)).verify()
    assert verification.passed, verification
    tree = TREES[name]
    assert verification.found == f"{tree.nodes} nodes, {tree.leaves} leaves, depth {tree.depth}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("isa", "lanes"),
    [
        pytest.param("", 4, marks=pytest.mark.exhaustive),
        pytest.param("sha", 4, marks=pytest.mark.needs("sha")),
        pytest.param("avx avx2", 8, marks=pytest.mark.needs("avx", "avx2")),
        pytest.param("avx avx2 sha", 8, marks=[pytest.mark.needs("avx", "avx2", "sha"), pytest.mark.exhaustive]),
        pytest.param("avx avx512f", 16, marks=pytest.mark.needs("avx", "avx512f")),
    ],
)
def test_the_counts_do_not_depend_on_the_vectors_nor_on_sha_ni(isa, lanes):
    program = f"""
import sys
from accelbench.kernels.treesearch.uts import sha1, sha_ni
from tests.kernels.test_uts import point, uts
assert sha1.LANES == {lanes}
assert (sha1.emit_nodes is sha_ni.emit_sha1) is {"sha" in isa.split()}
sys.exit(not all(uts(point(tree)).verify().passed for tree in ("T1", "T3")))
"""
    only = ",".join(f"+{name}" for name in isa.split())
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": only}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("tree", [ONE_NODE, CHILDLESS, ONLY_CHILDREN], ids=lambda tree: tree.name)
def test_a_tree_of_one_node_or_one_level_is_searched(monkeypatch, tree):
    monkeypatch.setitem(TREES, tree.name, tree)
    assert count(tree) == (tree.nodes, tree.leaves, tree.depth)
    task = uts(point(tree.name))
    task.run()
    assert task.verify().passed, task.verify()


@given(
    law=st.builds(Geometric, st.floats(0.1, 3), st.sampled_from(["linear", "fixed"]), st.integers(0, 4))
    | st.builds(Geometric, st.floats(1, 2), st.just("cyclic"), st.integers(1, 2))
    | st.builds(Binomial, st.integers(0, 50), st.floats(0, 0.3), st.integers(1, 3)),
    seed=st.integers(0, 2**31 - 1),
)
@settings(deadline=None, max_examples=25)
def test_any_tree_is_counted_like_by_a_sequential_search(law, seed):
    nodes, leaves, depth = count(Tree("any", law, seed, 0, 0, 0))
    tree = Tree("any", law, seed, nodes, depth, leaves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TREES, "any", tree)
        verification = uts(point("any")).verify()
    assert verification.passed, verification


@pytest.mark.parametrize("tree", [t for t in TREES.values() if isinstance(t.law, Geometric)], ids=lambda t: t.name)
def test_thresholds_agree_with_the_formula_on_both_sides_of_every_step(tree):
    rows = thresholds_of(tree.law)
    assert rows.shape == (tree.law.levels, trees.MAX_CHILDREN + 1)
    for depth in range(tree.law.levels if tree.law.shape != "fixed" else 1):
        assert (rows[depth, 1:] >= rows[depth, :-1]).all()
        for threshold in map(int, set(rows[depth])):
            for random in range(max(threshold - 2, 0), min(threshold + 3, RANDOM_VALUES)):
                assert (rows[depth] <= random).sum() == tree.law.children(depth, random)


@given(tree=st.sampled_from(SMALL), depth=st.integers(0, 80), random=st.integers(0, RANDOM_VALUES - 1))
@settings(deadline=None)
def test_the_search_table_agrees_with_the_law(tree, depth, random):
    law = TREES[tree].law
    table, flip = cpu_sharing.table_of(TREES[tree])
    children = (table[min(depth, len(table) - 1)] <= (random ^ int(flip))).sum()
    if isinstance(law, Binomial):
        assert children == (law.m if random / RANDOM_VALUES < law.q else 0)
    else:
        assert children == (law.children(depth, random) if depth < law.levels else 0)


@pytest.mark.parametrize("q", [0.124875, 0.200014, 0.0, 0.5, 1 / 3, 2**-31, 1 - 2**-31])
def test_the_binomial_limit_is_the_first_number_that_is_no_longer_below_q(q):
    below = Binomial(1, q, 1).below
    assert below / RANDOM_VALUES >= q
    assert below == 0 or (below - 1) / RANDOM_VALUES < q


def test_a_node_a_leaf_or_a_level_more_or_less_fails():
    tree = TREES["T1"]
    right = tree.nodes, tree.leaves, tree.depth
    assert tree.verify(*right).passed
    for change in np.vstack([np.eye(3, dtype=int), -np.eye(3, dtype=int)]):
        assert not tree.verify(*(right + change)).passed


def test_a_lost_subtree_fails(monkeypatch):
    honest = cpu_sharing.root_children
    monkeypatch.setattr(cpu_sharing, "root_children", lambda *known: honest(*known)[:, :-1].copy())
    assert not uts(point("T1")).verify().passed


def test_a_thread_that_leaves_no_counts_fails(monkeypatch):
    honest = cpu_sharing.search_all

    def forgets_the_last(*arguments):
        honest(*arguments[:-1], arguments[-1][:-1])

    monkeypatch.setattr(cpu_sharing, "search_all", forgets_the_last)
    assert not uts(point("T3")).verify().passed


def searchers(tree: Tree, threads: int, capacity: int = cpu_sharing.CAPACITY):
    """Return one function per thread for its part of the search, and the array of their counts."""
    table, flip = cpu_sharing.table_of(tree)
    first = cpu_sharing.root_children(tree, table)
    pool, control, stacks, results = sharing.new_search(first, threads, capacity)
    results.fill(-1)
    sharing.begin(first, pool, control)

    def part(thread):
        return lambda: cpu_sharing.search(table, flip, pool, control, stacks[thread], results[thread])

    return [part(thread) for thread in range(threads)], results, control


def is_complete(tree: Tree, results) -> bool:
    return tree.verify(1 + results[:, 0].sum(), results[:, 1].sum(), results[:, 2].max()).passed


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["T1", "T3"])
def test_threads_that_share_work_count_every_node_once(name, threads):
    parts, results, control = searchers(TREES[name], threads)
    running = [threading.Thread(target=part) for part in parts]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert is_complete(TREES[name], results)
    assert [control[place] for place in (sharing.LOCK, sharing.POOLED, sharing.WORKING)] == [0, 0, 0]


def test_threads_that_run_one_after_the_other_do_not_wait_for_each_other():
    parts, results, _ = searchers(TREES["T3"], 4)
    for part in parts:
        part()
    assert is_complete(TREES["T3"], results)
    assert results[0, 0] == TREES["T3"].nodes - 1
    assert not results[1:, :3].any()


def test_a_stack_that_is_too_small_grows():
    parts, results, _ = searchers(TREES["T3"], 1, capacity=cpu_sharing.ROOM)
    parts[0]()
    assert is_complete(TREES["T3"], results)


@pytest.mark.needs("gcc")
def test_the_c_version_that_the_search_is_compared_with_counts_the_same(tmp_path):
    source = Path(__file__).parents[1] / "baselines" / "uts.c"
    subprocess.run(["gcc", "-O3", "-march=native", source, "-o", tmp_path / "uts", "-lm"], check=True)
    for name in ("T1", "T3"):
        output = subprocess.run([tmp_path / "uts", name], check=True, capture_output=True, text=True)
        tree = TREES[name]
        assert output.stdout.split()[:3] == [str(tree.nodes), str(tree.leaves), str(tree.depth)]
