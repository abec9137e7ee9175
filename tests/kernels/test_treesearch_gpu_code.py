"""Machine code of the GPU tree searches, without a GPU: the properties stated in docstrings."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.lib.gpu import residency
from accelbench.kernels.lib.gpu.compilation import compile_kernel, to_ptx
from accelbench.kernels.lib.gpu.device_code import NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32, void
from accelbench.kernels.lib.gpu.residency import Multiprocessor
from accelbench.kernels.treesearch import device_search
from accelbench.kernels.treesearch.device_search import BLOCKS_PER_MULTIPROCESSOR
from accelbench.kernels.treesearch.flowshop import gpu_sharing as flowshop
from accelbench.kernels.treesearch.flowshop.instances import NODES, Instance, find_instance
from accelbench.kernels.treesearch.gpu_pool import THREADS, define_search
from accelbench.kernels.treesearch.nqueens import gpu_prefix, gpu_tuned
from accelbench.kernels.treesearch.nqueens.borders import cut
from accelbench.kernels.treesearch.uts import gpu_sharing as uts
from accelbench.kernels.treesearch.uts.device_sha1 import HASH_INSTRUCTIONS, hash_child
from accelbench.kernels.treesearch.uts.trees import MAX_CHILDREN, RANDOM_VALUES, TREES
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.nvidia import cuda as device
from accelbench.profiling.records.point import Point

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
def test_all_launched_blocks_are_resident(search: NumbaKernel) -> None:
    code = compile_kernel(search, (8, 0))  # the architecture with the most registers
    assert code.registers * THREADS * BLOCKS_PER_MULTIPROCESSOR <= REGISTERS_OF_A_MULTIPROCESSOR


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_shelves_are_read_and_written_between_fences(search: NumbaKernel) -> None:
    ptx = to_ptx(search, (9, 0))
    assert ptx.count("membar.gl") + ptx.count("fence.") >= 4  # shelf taken, set vacant, observed vacant, set ready
    assert "ld.global.nc" not in ptx  # data written by other blocks is never read through the read-only path


def turns_of(loop: tuple[str, ...]) -> list[str]:
    """Return the instructions of a loop without the branch in which a lane takes its next task."""
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
    """Return the number of 16-byte accesses: LDS.128, or LDS.U.128 at compute capability 7.5."""
    return sum(access in line and ".128" in line for line in lines)


@pytest.mark.parametrize("capability", gpu_tuned.INSTRUCTIONS_PER_NODE, ids=str)
def test_the_tuned_search_has_the_stated_instructions_per_node(capability: tuple[int, int]) -> None:
    code = compile_kernel(TUNED, capability)
    turns = turns_of(code.loop)
    assert len(turns) / gpu_tuned.TURNS == pytest.approx(gpu_tuned.INSTRUCTIONS_PER_NODE[capability], abs=1)
    assert wide(turns, "LDS") == wide(turns, "STS") == gpu_tuned.TURNS
    assert not any("SEL" in line for line in turns)
    assert code.spill_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("to_place", [1, 2, 10, 12, 15, 17])
def test_the_shared_memory_of_a_block_agrees_with_the_grid_computation(to_place: int) -> None:
    search = NumbaKernel("nqueens", gpu_tuned.define_search(to_place), gpu_tuned.SIGNATURE)
    assert compile_kernel(search, (9, 0)).shared_bytes == gpu_tuned.shared_bytes(to_place)


@pytest.mark.parametrize("module", [gpu_prefix, gpu_tuned])
def test_n_queens_requests_the_maximum_of_shared_memory(module: Any) -> None:
    assert module.define_search(10).targetoptions["shared_memory_carveout"] == "maxshared"


HOPPER = Multiprocessor(shared_bytes=228 << 10, reserved_bytes=1 << 10, registers=1 << 16, threads=2048, blocks=32)


def test_a_multiprocessor_is_described_by_attributes_that_cuda_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings.runtime import cudaDeviceAttr

    monkeypatch.setattr(residency, "attribute", lambda name: int(getattr(cudaDeviceAttr, f"cudaDevAttr{name}")))
    assert len(set(vars(residency.this_device()).values())) == 5


@pytest.mark.parametrize(
    ("threads", "shared_kib", "eight_of_256", "narrow_products"),
    [(2048, 164, 8, 2), (2048, 228, 8, 2), (1536, 100, 6, 1), (1024, 64, 4, 1)],
    ids=["8.0", "9.0", "8.9", "7.5"],
)
def test_as_many_blocks_run_at_once_as_the_multiprocessor_holds(
    threads: int, shared_kib: int, eight_of_256: int, narrow_products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = {
        "MaxThreadsPerMultiProcessor": threads,
        "MaxSharedMemoryPerMultiprocessor": shared_kib << 10,
        "ReservedSharedMemoryPerBlock": 1 << 10,
        "MultiProcessorCount": 10,
    }
    monkeypatch.setattr(residency, "attribute", attributes.__getitem__)
    assert residency.resident_blocks(256, 8) == 10 * eight_of_256
    assert residency.resident_blocks(256, 2, 80 << 10) == 10 * narrow_products


def test_there_are_four_prefixes_per_resident_thread_of_hopper_at_16_queens() -> None:
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


def test_what_does_not_fit_the_words_is_refused() -> None:
    with pytest.raises(ValueError, match="33 jobs"):
        flowshop.tables_of(Instance(0, 2, 1, 1, 0, jobs=33))
    with pytest.raises(ValueError, match="may take"):
        flowshop.tables_of(Instance(0, 60, 1, 1, 0, jobs=32))


@pytest.mark.parametrize("number", sorted(NODES))
def test_every_instance_fits(number: int) -> None:
    instance = find_instance(number)
    tables = flowshop.tables_of(instance)
    assert (tables[:-1].reshape(instance.machines, -1)[:, :20] & 0xFFFF).tolist() == instance.times.tolist()
    assert instance.jobs**2 <= device_search.slots_for(8 * 132) // 2


@pytest.mark.parametrize("name", ["T1", "T2", "T3L", "T5"])
def test_no_random_number_reaches_the_end_of_a_row(name: str) -> None:
    last, flip, *rows = uts.tables_of(TREES[name]).tolist()
    table = np.array(rows).reshape(last + 1, uts.PITCH)
    assert flip in (0, RANDOM_VALUES - 1)
    assert (np.diff(table) >= 0).all()
    assert (table[:, 101:] == RANDOM_VALUES).all()


def test_geometric_trees_never_lack_room_on_a_large_device() -> None:
    slots = device_search.slots_for(8 * 132)
    for name in ("T1", "T2", "T5", "T1L", "T1XL"):
        assert (MAX_CHILDREN - 1) * TREES[name].depth <= slots // 2


def test_few_blocks_have_longer_stacks_than_many() -> None:
    assert device_search.slots_for(1) == device_search.MOST_SLOTS
    assert device_search.slots_for(8 * 132) == 1 << 14
    assert device_search.slots_for(10**6) == device_search.LEAST_SLOTS


def test_what_cannot_be_counted_is_refused() -> None:
    problem, root, tables = flowshop.define_problem(5), np.zeros(7, np.uint32), np.ones(3, np.uint32)
    with pytest.raises(ValueError, match="up to 9000 children"):
        device_search.Search(problem, tables, root, range(2), 9000, blocks=1, slots=64, threads=8)
    with pytest.raises(ValueError, match="called 4096"):
        device_search.Search(problem, tables, root, range(4097), 3, blocks=1, slots=64, threads=8)
    for slots in (8, 100, 1 << 21):
        with pytest.raises(ValueError, match="not a power of two"):
            define_search(problem, threads=8, slots=slots)


@pytest.mark.parametrize(
    ("module", "params"), [(uts, {"tree": "T1"}), (flowshop, {"instance": 3})], ids=["uts", "flowshop"]
)
def test_a_device_whose_threads_cannot_pause_is_skipped_before_memory_is_allocated(
    monkeypatch: pytest.MonkeyPatch, module: Any, params: dict[str, str | int]
) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("memory was allocated")

    for allocating in ("to_device", "device_array"):
        monkeypatch.setattr(cuda, allocating, refuse)
    monkeypatch.setattr(device, "compute_capability", lambda: (6, 1))
    with pytest.raises(Skip, match=r"nanosleep.* needs compute capability 7\.0, and this device has 6\.1"):
        module.prepare(Point("treesearch", "gpu", params))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queens", "at_least", "to_place"),
    [
        (16, gpu_tuned.MIN_TASKS, 10),
        (18, gpu_tuned.MIN_TASKS, 12),
        (20, gpu_tuned.MANY_TASKS, 14),
        (22, gpu_tuned.MANY_TASKS, 17),
    ],
)
def test_the_search_is_built_for_the_depth_of_the_tasks(queens: int, at_least: int, to_place: int) -> None:
    tasks = cut(queens, at_least, gpu_tuned.LOOK_AHEAD)
    assert gpu_tuned.most_to_place(tasks) == to_place
    assert gpu_tuned.rows_of(tasks).shape == (len(tasks.borders), gpu_tuned.pitch_of(to_place))
    assert at_least <= len(tasks) < 10_000_000


def test_the_share_of_the_bound_is_one_if_every_clock_executes_a_wavefront(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, share = "instructions per node", "share of shared-memory wavefronts at the highest clock"
    for capability, keys in (((9, 0), {counted, share}), ((6, 1), {share})):
        monkeypatch.setattr(gpu_tuned, "compute_capability", lambda found=capability: found)
        found = gpu_tuned.share_of_bound(nodes=32 * 500, clocks=500 * gpu_tuned.WAVEFRONTS_PER_NODE)
        assert found.keys() == keys
        assert found[share].value == pytest.approx(1)
