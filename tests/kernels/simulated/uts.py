"""The Unbalanced Tree Search on a GPU, in Numba's CUDA simulator: SHA-1, the laws of the trees, whole small trees."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.gpu.numba_cuda import cuda
from accelbench.kernels.treesearch import device_search
from accelbench.kernels.treesearch.uts import trees
from accelbench.kernels.treesearch.uts.device_sha1 import hash_child
from accelbench.kernels.treesearch.uts.gpu_sharing import PITCH, expand, search_of, tables_of
from accelbench.kernels.treesearch.uts.trees import RANDOM_VALUES, TREES, Binomial, Geometric, Tree
from accelbench.profiling.benchmark import Task

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")

words = st.integers(0, 2**32 - 1)
SMALL = settings(max_examples=5, deadline=None)


def counted(law: Geometric | Binomial, seed: int) -> Tree:
    """A tree with its counts, searched on the host with Python's own SHA-1 and the published formula."""
    tree = Tree("small", law, seed, 0, 0, 0)
    nodes, leaves, deepest = 1, int(tree.root_children == 0), 0
    root = b"".join(int(word).to_bytes(4, "big") for word in tree.root)
    stack = [(root, child, 1) for child in range(tree.root_children)]
    while stack:
        parent, name, depth = stack.pop()
        state = hashlib.sha1(parent + name.to_bytes(4, "big")).digest()
        random = int.from_bytes(state[-4:], "big") % RANDOM_VALUES
        if isinstance(law, Binomial):
            children = law.m if random / RANDOM_VALUES < law.q else 0
        else:
            children = law.children(depth, random) if depth < law.levels else 0
        nodes, leaves, deepest = nodes + 1, leaves + (children == 0), max(deepest, depth)
        stack += [(state, child, depth + 1) for child in range(children)]
    return dataclasses.replace(tree, nodes=nodes, leaves=leaves, depth=deepest)


@cuda.jit
def hash_one(message: Any, digest: Any) -> None:
    a, b, c, d, e = hash_child(message[0], message[1], message[2], message[3], message[4], message[5])
    digest[0], digest[1], digest[2], digest[3], digest[4] = a, b, c, d, e


@SMALL
@given(state=st.lists(words, min_size=5, max_size=5), child=words)
def test_a_child_is_the_sha1_of_its_parent_and_its_number(state: list[int], child: int) -> None:
    message = np.array([*state, child], np.uint32)
    digest = np.zeros(5, np.uint32)
    hash_one[1, 1](message, digest)
    expected = hashlib.sha1(b"".join(int(word).to_bytes(4, "big") for word in message)).digest()
    assert digest.tolist() == np.frombuffer(expected, ">u4").tolist()


@cuda.jit
def expand_one(node: Any, name: Any, tables: Any, children: Any) -> None:
    children[0] = expand(node, name, tables)


@pytest.mark.parametrize("name", ["T1", "T2", "T3", "T5"])
@pytest.mark.parametrize("depth", [0, 1, 9, 10, 19, 80, 500])
def test_a_node_has_as_many_children_as_its_law_says(name: str, depth: int) -> None:
    law, rng = TREES[name].law, np.random.default_rng(depth)
    tables = tables_of(TREES[name])
    for _ in range(5):
        node = np.array([depth, *rng.integers(0, 2**32, 5)], np.uint32)
        children = np.zeros(1, np.uint32)
        expand_one[1, 1](node, np.uint32(rng.integers(0, 100)), tables, children)
        random = int(node[-1]) % RANDOM_VALUES
        if isinstance(law, Binomial):
            expected = law.m if random / RANDOM_VALUES < law.q else 0
        else:
            expected = law.children(depth + 1, random) if depth + 1 < law.levels else 0
        assert (int(node[0]), int(children[0])) == (depth + 1, expected)


@pytest.mark.parametrize("name", ["T1", "T2", "T3L", "T5"])
def test_no_random_number_reaches_the_end_of_a_row(name: str) -> None:
    last, flip, *rows = tables_of(TREES[name]).tolist()
    table = np.array(rows).reshape(last + 1, PITCH)
    assert flip in (0, RANDOM_VALUES - 1)
    assert (np.diff(table) >= 0).all()
    assert (table[:, 101:] == RANDOM_VALUES).all()


@pytest.mark.parametrize(
    ("law", "seed"),
    [
        (Geometric(3, "fixed", 3), 1),
        (Geometric(2, "linear", 5), 11),
        (Geometric(1.5, "cyclic", 2), 10),
        (Binomial(20, 0.2, 4), 42),
        (Binomial(9, 0.0, 4), 1),
        (Binomial(0, 0.5, 1), 1),
        (Geometric(4, "fixed", 0), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize(("blocks", "keep"), [(1, 1000), (2, 1)])
def test_nodes_leaves_and_depth_of_a_whole_tree_are_right(
    law: Geometric | Binomial, seed: int, blocks: int, keep: int
) -> None:
    tree = counted(law, seed)
    search = search_of(tree, blocks=blocks, slots=1024, threads=32, keep=keep)
    search.poison()
    search.run()
    found = search.counts()
    leaves = found.nodes - found.parents + (tree.root_children == 0)
    outcome = tree.verify(found.nodes + 1, leaves, found.depth)
    assert outcome.passed, outcome
    assert tree.nodes < 500


Prepare = Callable[..., Task]


@pytest.fixture
def small_tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A tree called T1, on a device that holds two blocks of 32 threads."""
    tree = dataclasses.replace(counted(Geometric(3, "fixed", 3), 1), name="T1")
    monkeypatch.setitem(trees.TREES, "T1", tree)
    monkeypatch.setattr(device_search, "BLOCKS_PER_MULTIPROCESSOR", 1)
    monkeypatch.setattr(device_search, "MOST_SLOTS", 1 << 11)
    return tree


def test_the_task_verifies_what_it_ran(small_tree: Tree, prepared: Prepare) -> None:
    task = prepared("treesearch.uts.gpu_sharing", tree="T1")
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.work.items == small_tree.nodes
    assert task.metrics is not None
    metrics = task.metrics(1e-3)
    assert metrics["leaves"].value == small_tree.leaves
    assert 0 < metrics["share of instruction issue at the highest clock"].value < 1


@pytest.mark.parametrize("count", ["nodes", "leaves", "depth"])
def test_a_wrong_count_fails(
    small_tree: Tree, prepared: Prepare, monkeypatch: pytest.MonkeyPatch, count: str
) -> None:  # fmt: skip
    wrong = dataclasses.replace(small_tree, **{count: getattr(small_tree, count) + 1})
    monkeypatch.setitem(trees.TREES, "T1", wrong)
    assert not prepared("treesearch.uts.gpu_sharing", tree="T1").verify().passed


def test_a_search_that_did_not_run_fails(
    small_tree: Tree, prepared: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    task = prepared("treesearch.uts.gpu_sharing", tree="T1")
    assert task.verify().passed
    monkeypatch.setattr(device_search.Search, "run", lambda self: None)
    assert not prepared("treesearch.uts.gpu_sharing", tree="T1").verify().passed


def test_geometric_trees_never_lack_room_on_a_large_device() -> None:
    slots = device_search.slots_for(8 * 132)
    for name in ("T1", "T2", "T5", "T1L", "T1XL"):
        tree = TREES[name]
        assert (trees.MAX_CHILDREN - 1) * tree.depth <= slots // 2
