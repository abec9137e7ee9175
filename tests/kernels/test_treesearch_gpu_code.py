"""The machine code of the GPU tree searches, without a GPU: what the docstrings state of it."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from accelbench.kernels.lib.gpu.compilation import compile_kernel, to_ptx
from accelbench.kernels.lib.gpu.device_code import NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32, void
from accelbench.kernels.treesearch.device_search import BLOCKS_PER_MULTIPROCESSOR
from accelbench.kernels.treesearch.flowshop import gpu_sharing as flowshop
from accelbench.kernels.treesearch.gpu_pool import THREADS
from accelbench.kernels.treesearch.nqueens import gpu_prefix, gpu_tuned, residency
from accelbench.kernels.treesearch.nqueens.residency import Multiprocessor
from accelbench.kernels.treesearch.uts import gpu_sharing as uts
from accelbench.kernels.treesearch.uts.device_sha1 import HASH_INSTRUCTIONS, hash_child

(TUNED,) = (kernel for kernel in gpu_tuned.device_code() if kernel.tuned)
SEARCHES = [*uts.device_code(), *flowshop.device_code()]
REGISTERS_OF_A_MULTIPROCESSOR = 1 << 16


@cuda.jit
def hash_words(words: Any) -> None:
    i = cuda.threadIdx.x
    a, b, c, d, e = hash_child(words[0, i], words[1, i], words[2, i], words[3, i], words[4, i], words[5, i])
    words[0, i], words[1, i], words[2, i], words[3, i], words[4, i] = a, b, c, d, e


@cuda.jit
def turn_words(words: Any) -> None:
    i = cuda.threadIdx.x
    a, b, c, d, e = words[1, i], words[2, i], words[3, i], words[4, i], words[5, i]
    words[0, i], words[1, i], words[2, i], words[3, i], words[4, i] = a, b, c, d, e


@pytest.mark.slow
def test_a_hash_takes_as_many_instructions_as_stated() -> None:
    lengths = [
        len(compile_kernel(NumbaKernel(function.py_func.__name__, function, void(uint32[:, ::1])), (9, 0)).instructions)
        for function in (hash_words, turn_words)
    ]
    assert lengths[0] - lengths[1] == pytest.approx(HASH_INSTRUCTIONS, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_as_many_blocks_as_are_launched_fit_a_multiprocessor(search: NumbaKernel) -> None:
    code = compile_kernel(search, (8, 0))  # which takes the most registers
    assert code.registers * THREADS * BLOCKS_PER_MULTIPROCESSOR <= REGISTERS_OF_A_MULTIPROCESSOR


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_shelves_are_read_and_written_between_fences(search: NumbaKernel) -> None:
    ptx = to_ptx(search, (9, 0))
    assert ptx.count("membar.gl") + ptx.count("fence.") >= 4  # shelf taken, said vacant, found vacant, said ready
    assert "ld.global.nc" not in ptx  # what other blocks write is never read through the read-only path


def turns_of(loop: tuple[str, ...]) -> list[str]:
    """A loop's instructions without those that a lane executes only to take its next task."""
    turns: list[str] = []
    lines = iter(loop)
    for line in lines:
        turns.append(line)
        if line.startswith("@") and "BRA" in line:
            next_task = list(takewhile(lambda skipped: "BSYNC" not in skipped, lines))
            assert any("ATOMG" in skipped for skipped in next_task)
            turns += [*(skipped for skipped in next_task if skipped == "NOP"), "BSYNC"]
    return turns


def wide(lines: list[str], access: str) -> int:
    """How many of the instructions are accesses of 16 bytes: LDS.128, or LDS.U.128 at compute capability 7.5."""
    return sum(access in line and ".128" in line for line in lines)


@pytest.mark.parametrize("capability", gpu_tuned.INSTRUCTIONS_PER_NODE, ids=str)
def test_the_tuned_search_takes_the_instructions_per_node_that_it_states(capability: tuple[int, int]) -> None:
    code = compile_kernel(TUNED, capability)
    turns = turns_of(code.loop)
    assert len(turns) / gpu_tuned.TURNS == pytest.approx(gpu_tuned.INSTRUCTIONS_PER_NODE[capability], abs=1)
    assert wide(turns, "LDS") == wide(turns, "STS") == gpu_tuned.TURNS
    assert not any("SEL" in line for line in turns)
    assert code.spill_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("to_place", [1, 2, 10, 12, 15, 17])
def test_a_block_takes_the_shared_memory_that_the_grid_is_computed_with(to_place: int) -> None:
    search = NumbaKernel("nqueens", gpu_tuned.define_search(to_place), gpu_tuned.SIGNATURE)
    assert compile_kernel(search, (9, 0)).shared_bytes == gpu_tuned.shared_bytes(to_place)


@pytest.mark.parametrize("module", [gpu_prefix, gpu_tuned])
def test_n_queens_asks_for_all_the_shared_memory_that_a_multiprocessor_can_have(module: Any) -> None:
    assert module.define_search(10).targetoptions["shared_memory_carveout"] == "maxshared"


HOPPER = Multiprocessor(shared_bytes=228 << 10, reserved_bytes=1 << 10, registers=1 << 16, threads=2048, blocks=32)


def test_a_multiprocessor_is_described_by_attributes_that_cuda_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings.runtime import cudaDeviceAttr

    monkeypatch.setattr(residency, "attribute", lambda name: int(getattr(cudaDeviceAttr, f"cudaDevAttr{name}")))
    assert len(set(vars(residency.this_device()).values())) == 5


def test_four_prefixes_are_searched_for_each_thread_that_a_hopper_holds_at_16_queens() -> None:
    (kernel,) = gpu_prefix.device_code()
    code = compile_kernel(kernel, (9, 0))
    blocks = HOPPER.resident(gpu_prefix.THREADS, code.registers, code.shared_bytes)
    assert 4 * 132 * blocks * gpu_prefix.THREADS == gpu_prefix.MIN_PREFIXES


@pytest.mark.parametrize(
    ("block", "resident"),
    [
        ({"threads": 64, "registers": 32, "shared_bytes": 11 << 10}, 19),
        ({"threads": 64, "registers": 32, "shared_bytes": 0}, 32),
        ({"threads": 33, "registers": 65, "shared_bytes": 0}, 14),
        ({"threads": 1024, "registers": 32, "shared_bytes": 0}, 2),
        ({"threads": 1024, "registers": 33, "shared_bytes": 0}, 1),
        ({"threads": 64, "registers": 32, "shared_bytes": 228 << 10}, 0),
    ],
    ids=str,
)
def test_as_many_blocks_are_resident_as_memory_registers_threads_and_places_allow(
    block: dict[str, int], resident: int
) -> None:
    assert HOPPER.resident(**block) == resident
