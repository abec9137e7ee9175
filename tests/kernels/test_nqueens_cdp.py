"""N-Queens by dynamic parallelism: division of the tree on the host, compilation and linking without a GPU."""

from __future__ import annotations

from itertools import chain
from typing import NoReturn

import numpy as np
import pytest

from accelbench.kernels.lib.gpu import machine_code
from accelbench.kernels.lib.gpu.compilation import disassemble
from accelbench.kernels.treesearch.nqueens import gpu_cdp
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes, next_row
from accelbench.profiling.benchmark import Skip


@pytest.mark.parametrize(("queens", "at_least", "depth"), [(1, 1, 0), (4, 3, 3), (6, 10, 2), (8, 50, 5), (10, 1, 4)])
def test_prefixes_of_a_placement_follow_those_of_earlier_placements(queens: int, at_least: int, depth: int) -> None:
    placements, board = enumerate_prefixes(queens, at_least), np.uint32((1 << queens) - 1)
    expected = [0]
    for i in range(len(placements)):
        level = tuple(words[i : i + 1] for words in (placements.columns, placements.left, placements.right))
        for _ in range(placements.depth, depth):
            level = next_row(board, *level)
        expected.append(expected[-1] + len(level[0]))
    assert gpu_cdp.starts_below(placements, depth).tolist() == expected[:-1]


@pytest.mark.parametrize("placements", [1, 528, 2048, 2049, 4097, 7093])
def test_no_parent_kernel_launches_more_children_than_may_be_pending(placements: int) -> None:
    parts = gpu_cdp.parts(placements)
    assert list(chain.from_iterable(parts)) == list(range(placements))
    assert max(map(len, parts)) <= gpu_cdp.MAX_LAUNCHES
    assert len(parts) == -(-placements // gpu_cdp.MAX_LAUNCHES)


def test_the_listed_code_is_the_code_for_16_queens() -> None:
    rows = (enumerate_prefixes(16, n).depth for n in (gpu_cdp.MIN_PLACEMENTS, gpu_cdp.MIN_PREFIXES))
    assert {kernel.options for kernel in gpu_cdp.device_code()} == {gpu_cdp.options(16, *rows)}


@pytest.mark.slow
def test_both_kernels_are_linked_with_the_device_runtime() -> None:
    binary = gpu_cdp.machine_code(gpu_cdp.options(16, 3, 6), "sm_90")
    assert binary.startswith(b"\x7fELF")
    for entry in (gpu_cdp.PARENT, gpu_cdp.CHILD):
        assert disassemble(binary, entry)


def test_text_that_does_not_link_is_an_error_of_the_linker() -> None:
    with pytest.raises(RuntimeError, match="nvJitLink"):
        machine_code.link_device_runtime(b".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n", "sm_90")


def test_without_the_device_runtime_the_point_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    def missing(name: str) -> NoReturn:
        raise pathfinder.StaticLibNotFoundError(name)

    monkeypatch.setattr(pathfinder, "find_static_lib", missing)
    with pytest.raises(Skip):
        gpu_cdp.machine_code(gpu_cdp.options(8, 2, 4), "sm_90")
