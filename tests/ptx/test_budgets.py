"""Instruction budgets: the search with N queens as it is known, and bounds of hand-made counts."""

from __future__ import annotations

from collections import Counter

import pytest

from accelbench.kernels.treesearch.nqueens.gpu_tuned import INSTRUCTIONS_PER_NODE, WAVEFRONTS_PER_NODE
from accelbench.profiling.machine.vendor_peaks import CardPeaks, cards, find_card
from tests.ptx.budgets import WARP, Budget, Case, bounds, cases, measure, predict
from tests.ptx.kernels import named
from tests.ptx.machine import Tally
from tests.ptx.report import budget_table, grouped
from tests.ptx.sources import HOPPER

NOTHING = Case("nothing", "element", lambda bench: 1)
STREAMING = Case("streaming", "element", lambda bench: 1, streams=True)


def card(name: str) -> CardPeaks:
    found = find_card(name)
    assert found is not None
    return found


def budget(case: Case = NOTHING, wavefronts: int = 0, touched: int = 0, **slots: int) -> Budget:
    return Budget(case, HOPPER, 32, Tally(wavefronts=wavefronts), touched, Counter(slots), {})


@pytest.mark.parametrize(
    ("counts", "cycles", "pipe"),
    [
        ({"FFMA": 8}, 2, "issue"),
        ({"IMAD": 8}, 4, "integer multiplication"),
        ({"LOP3": 8, "FFMA": 4}, 4, "ALU"),
        ({"DFMA": 8}, 4, "FP64"),
        ({"MUFU": 8}, 16, "special functions"),
        ({"SHFL": 8}, 8, "shuffles"),
        ({"wavefronts": 9, "LOP3": 16, "IMAD": 9}, 9, "shared memory"),
    ],
)
def test_the_pipe_with_the_most_cycles_binds(counts: dict[str, int], cycles: int, pipe: str) -> None:
    """An H100 has 132 multiprocessors; the clock of its peak in float32 is 1,980 MHz."""
    found = predict(budget(**counts), card("NVIDIA H100 80GB HBM3"))
    assert found is not None
    assert found.pipe == pipe
    assert found.rate == pytest.approx(132 * 1.98e9 * 32 / cycles, rel=0.001)


@pytest.mark.parametrize(
    ("capability", "opcode", "pipe", "cycles"),
    [
        ((7, 5), "SHFL", "shuffles", 16),
        ((8, 0), "SHFL", "shuffles", 8),
        ((7, 5), "FFMA", "FP32", 4),
        ((8, 6), "FFMA", "FP32", 2),
        ((8, 6), "HFMA2", "FP16", 4),
        ((9, 0), "HFMA2", "FP16", 2),
        ((9, 0), "ISETP", "ALU", 4),
        ((10, 0), "ISETP", "ALU", 0),
        ((10, 0), "IADD", "ALU", 4),
        ((10, 0), "FFMA2", "packed FP32", 4),
        ((12, 0), "IADD", "ALU", 0),
        ((12, 0), "IADD3", "ALU", 4),
        ((12, 0), "FMNMX", "ALU", 4),
        ((12, 0), "DFMA", "FP64", 128),
        ((12, 0), "F2FP", "ALU", 4),
        ((12, 0), "F2F", "special functions", 16),
    ],
)
def test_throughput_of_pipes(capability: tuple[int, int], opcode: str, pipe: str, cycles: int) -> None:
    """Eight warp instructions."""
    assert 32 * budget(**{opcode: 8}).cycles(capability)[pipe] == cycles


def test_device_memory_binds_kernels_whose_traffic_does_not_depend_on_their_size() -> None:
    hopper = card("NVIDIA H100 80GB HBM3")
    found = predict(budget(STREAMING, touched=32 * 8, FFMA=1), hopper)
    assert found is not None
    assert (found.pipe, found.rate) == ("device memory", pytest.approx(hopper.bandwidth / 8))
    found = predict(budget(NOTHING, touched=32 * 8, FFMA=1), hopper)
    assert found is not None
    assert found.pipe == "issue"


def test_cards_have_bounds_from_the_code_that_they_execute() -> None:
    titles = {bound.card.title for bound in bounds({(8, 0): budget(FFMA=1)})}
    assert {"A100 40 GB", "A10", "GeForce RTX 3090"} <= titles
    assert not titles & {"T4", "L4", "H100 SXM", "A10G"}  # the vendor states no peak of the A10G in float32
    rows = grouped({HOPPER: budget(FFMA=1)})
    assert sum(len(titles.split(", ")) for _, titles in rows) == sum(each.capability == HOPPER for each in cards())


def test_every_case_is_a_kernel_of_its_own() -> None:
    names = [case.kernel for case in cases()]
    assert len(names) == len(set(names))
    for name in names:
        assert named(name).name == name


@pytest.mark.slow
@pytest.mark.needs("g++")
def test_shared_memory_binds_the_tuned_search() -> None:
    (case,) = [case for case in cases() if case.kernel == "nqueens tuned"]
    found = measure(case, HOPPER)
    per_warp = WARP / found.units
    assert found.tally.wavefronts * per_warp == pytest.approx(WAVEFRONTS_PER_NODE, rel=0.06)
    assert found.slots.total() * per_warp == pytest.approx(INSTRUCTIONS_PER_NODE[HOPPER], rel=0.12)
    assert found.tally.conflicts == 0
    assert {bound.pipe for bound in bounds({HOPPER: found})} == {"shared memory"}
    assert budget_table([found]).row_count == 1
