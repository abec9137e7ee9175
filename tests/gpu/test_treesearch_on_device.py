"""Tree searches on a real device: every published tree, with all blocks and with a few."""

from __future__ import annotations

import pytest

from accelbench.kernels.treesearch.flowshop.instances import NODES, find_instance
from accelbench.kernels.treesearch.uts.trees import TREES
from accelbench.profiling.machine.nvidia.cuda import synchronize
from tests.gpu.conftest import Prepare

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("tree", list(TREES))
def test_the_published_counts_of_every_tree_are_found(prepared: Prepare, tree: str) -> None:
    task = prepared("treesearch.uts.gpu_sharing", tree=tree)
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize("instance", sorted(NODES))
def test_the_nodes_of_every_instance_are_found(prepared: Prepare, instance: int) -> None:
    task = prepared("treesearch.flowshop.gpu_sharing", instance=instance)
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize("keep", [1, 128, 10**6])
@pytest.mark.parametrize("blocks", [1, 2, 33])
@pytest.mark.parametrize("tree", ["T1", "T2", "T3", "T5"])
def test_a_few_blocks_find_the_published_counts(tree: str, blocks: int, keep: int) -> None:
    from accelbench.kernels.treesearch.device_search import slots_for
    from accelbench.kernels.treesearch.uts.gpu_sharing import search_of, verify_search

    search = search_of(TREES[tree], blocks=blocks, slots=slots_for(blocks), keep=keep)
    outcome = verify_search(TREES[tree], search)
    assert outcome.passed, outcome
    if keep == 1:
        assert search.counts().shared > 0


@pytest.mark.parametrize("blocks", [1, 2, 5_000])
def test_any_number_of_blocks_bounds_every_child(blocks: int) -> None:
    from accelbench.kernels.treesearch.device_search import slots_for
    from accelbench.kernels.treesearch.flowshop.gpu_sharing import search_of, verify_search

    instance = find_instance(14)
    outcome = verify_search(instance, search_of(instance, blocks=blocks, slots=slots_for(blocks)))
    assert outcome.passed, outcome


def test_work_spreads_over_all_blocks_of_the_device() -> None:
    from accelbench.kernels.treesearch.device_search import whole_device
    from accelbench.kernels.treesearch.uts.gpu_sharing import PROBLEM, search_of, verify_search

    size = whole_device(PROBLEM.words)
    search = search_of(TREES["T1L"], **size)
    assert verify_search(TREES["T1L"], search).passed
    assert (search.nodes_by_block() > 0).sum() > size["blocks"] // 2


@pytest.mark.parametrize(
    ("module", "params"),
    [("uts.gpu_sharing", {"tree": "T1"}), ("flowshop.gpu_sharing", {"instance": 14})],
)
def test_a_captured_search_can_be_replayed(prepared: Prepare, module: str, params: dict[str, str | int]) -> None:
    import cupy

    stream = cupy.cuda.Stream()
    task = prepared(f"treesearch.{module}", **params)
    assert task.verify().passed
    with stream:
        stream.begin_capture(mode=cupy.cuda.runtime.streamCaptureModeGlobal)
    try:
        task.run(stream.ptr)
    finally:
        with stream:
            graph = stream.end_capture()
    for _ in range(3):
        graph.launch(stream)
    stream.synchronize()
    synchronize()
    assert task.metrics is not None
    assert task.metrics(1.0)["shelves shared"].value > 0
    assert task.verify().passed
