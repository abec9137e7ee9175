"""Bandwidth and latency by size of the working set: the intended accesses happen, and faults fail the verification."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.execution.plan import discover
from accelbench.kernels.cache import cache_bandwidth, cache_latency, cpu_bandwidth, cpu_operations
from accelbench.kernels.lib.cpu import huge_pages
from accelbench.kernels.lib.cpu.pointer_chase import STEPS, Cycle, chase
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point


def latency(kib: int, **optional: str) -> Task:
    return cache_latency(Point("cache-latency", "cpu", {"kib": kib, **optional}, seed=7))


def bandwidth(kib: int, cores: str = "one", **optional: str) -> Task:
    return cache_bandwidth(Point("cache-bandwidth", "cpu", {"cores": cores, "kib": kib, **optional}, seed=7))


@settings(deadline=None)
@given(lines=st.integers(1, 300), line=st.sampled_from([64, 128]), seed=st.integers(0, 2**32 - 1))
def test_the_chase_passes_every_line_once_before_it_returns(lines: int, line: int, seed: int) -> None:
    pointers = np.zeros(lines * line // 8, np.uint64)
    cycle = Cycle(pointers.ctypes.data, lines, line, np.random.default_rng(seed))
    cycle.draw(pointers)
    place, passed = cycle.after(0), []
    for step in range(lines):
        assert place == cycle.after(step)
        passed.append(place - cycle.first)
        place = int(chase(np.uint64(place), 1))
    assert sorted(passed) == list(range(0, lines * line, line))
    assert place == cycle.after(0)


def test_the_next_execution_continues_where_the_last_one_ended() -> None:
    task = latency(64)
    expected = [task.verify().expected for _ in range(3)]
    assert len(set(expected)) > 1, "the same cycle in every verification"
    task.run()
    assert task.verify().passed


@pytest.mark.parametrize("lines", [1, 16, 4096])
def test_a_chase_that_ends_one_step_early_fails(lines: int) -> None:
    pointers = np.zeros(lines * 8, np.uint64)
    cycle = Cycle(pointers.ctypes.data, lines, 64, np.random.default_rng(3))
    cycle.draw(pointers)
    found = int(chase(np.uint64(cycle.after(0)), 1000))
    assert cycle.verify(1000, found).passed
    assert cycle.verify(999, found).passed == (lines == 1)


@pytest.mark.parametrize("kib", [1, 8, 33, 700])
def test_latency_counts_its_accesses_and_reports_cycles_per_access(kib: int) -> None:
    task = latency(kib)
    task.run()
    assert task.verify().passed
    assert task.work.items == STEPS
    assert task.metrics is not None
    metrics = task.metrics(1e-3)
    assert metrics["cycles per access"].value == pytest.approx(1e-3 / STEPS * metrics["clock"].value * 1e6)


@pytest.mark.parametrize("op", cpu_operations.OPERATIONS)
@pytest.mark.parametrize("cores", ["one", "all"])
@pytest.mark.parametrize("kib", [1, 8, 33, 700])
def test_bandwidth_counts_the_bytes_that_each_core_moves(kib: int, cores: str, op: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(cpu_bandwidth, "MOVED", 3 << 20)
    task = bandwidth(kib, cores, op=op)
    task.run()
    assert task.verify().passed
    threads = thread_count() if cores == "all" else 1
    assert task.work.bytes == threads * kib * 1024 * (3072 // kib)


def test_a_set_larger_than_the_bytes_of_an_execution_is_read_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(cpu_bandwidth, "MOVED", 1 << 20)
    task = bandwidth(4096)
    assert task.work.bytes == 4096 << 10
    assert task.verify().passed


@pytest.mark.parametrize("fault", ["a pass too few", "a part left out", "nothing written"])
def test_a_sum_that_is_not_exact_fails(fault: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(cpu_bandwidth, "MOVED", 1 << 20)
    honest = cpu_operations.sum_vectors

    def faulty(array: Any, begin: int, end: int, passes: int) -> float:
        if fault == "nothing written":
            return float("nan")
        return float(
            honest(array, begin, end - 512 * (fault == "a part left out"), passes - (fault == "a pass too few"))
        )

    monkeypatch.setattr(cpu_operations, "sum_vectors", faulty)
    assert not bandwidth(64).verify().passed


@pytest.mark.parametrize("op", ["write", "copy"])
@pytest.mark.parametrize("fault", ["a pass too few", "an element wrong", "nothing written"])
def test_a_set_with_a_missing_pass_or_a_wrong_element_fails(fault: str, op: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(cpu_bandwidth, "MOVED", 1 << 20)
    kernel = f"{op}_vectors"
    honest = getattr(cpu_operations, kernel)

    def faulty(array: Any, value: float, passes: int) -> None:
        if fault != "nothing written":
            honest(array, value, passes - (fault == "a pass too few"))
        if fault == "an element wrong":
            array[-1] += 1

    assert bandwidth(64, op=op).verify().passed
    monkeypatch.setattr(cpu_operations, kernel, faulty)
    assert not bandwidth(64, op=op).verify().passed


def test_small_pages_are_small_and_the_share_of_huge_pages_is_reported() -> None:
    task = latency(8192, pages="small")
    assert task.verify().passed
    assert task.metrics is not None
    share = task.metrics(1e-3).get("on huge pages")
    assert share is None or share.value == 0


def test_a_working_set_that_does_not_fit_is_skipped() -> None:
    for make in (latency, bandwidth):
        with pytest.raises(Skip, match="of memory"):
            make(1 << 34)


@pytest.mark.parametrize("name", ["cache-bandwidth", "cache-latency"])
def test_sizes_begin_in_the_first_cache_and_end_far_beyond_the_last(name: str) -> None:
    declared = discover()[name]
    for device, smallest, largest in (("cpu", 16, 256 << 10), ("gpu", 64, 512 << 10)):
        sizes = declared.axes_on(device)["kib"]  # type: ignore[arg-type]
        assert list(sizes) == sorted(set(sizes))
        assert int(sizes[0]) <= smallest
        assert int(sizes[-1]) >= largest
        assert all(int(later) <= 4 * int(sooner) for sooner, later in pairwise(sizes))


def test_arrays_are_aligned_to_a_huge_page_and_have_the_requested_size() -> None:
    for count in (1, 1000, (huge_pages.HUGE_PAGE >> 3) + 1):
        array = huge_pages.huge_empty(count, np.float64)
        assert array.ctypes.data % huge_pages.HUGE_PAGE == 0
        assert array.shape == (count,)
        array[:] = 1
        share = huge_pages.huge_share(array)
        assert share is None or 0 <= share <= 1


def test_the_share_of_huge_pages_is_that_of_the_arrays_own_mapping(tmp_path: Any) -> None:
    array = np.zeros(8)
    address = array.ctypes.data
    smaps = tmp_path / "smaps"
    smaps.write_text(
        f"1000-2000 rw-p 0 00:00 0\nRss: 64 kB\nAnonHugePages: 64 kB\n"
        f"{address - 64:x}-{address + 4096:x} rw-p 0 00:00 0\nRss:    4096 kB\nAnonHugePages:   1024 kB\n"
        f"{address + 4096:x}-{address + 8192:x} rw-p 0 00:00 0\nRss: 64 kB\nAnonHugePages: 64 kB\n"
    )
    assert huge_pages.huge_share(array, smaps) == 0.25
    smaps.write_text("1000-2000 rw-p 0 00:00 0\nRss: 64 kB\nAnonHugePages: 64 kB\n")
    assert huge_pages.huge_share(array, smaps) is None
    assert huge_pages.huge_share(array, tmp_path / "none") is None


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_the_gpu_kernels_loops_are_loads(capability: tuple[int, int]) -> None:
    from accelbench.kernels.cache import gpu_bandwidth, gpu_latency
    from accelbench.kernels.lib.gpu.compilation import compile_kernel

    (kernel,) = gpu_latency.device_code()
    chase = compile_kernel(kernel, capability).loop
    loads = [line for line in chase if "LDG.E.64 " in line]
    assert len(loads) == 16
    assert len(chase) - len(loads) <= 3, "more than the loads and the loop"
    (kernel,) = gpu_bandwidth.device_code()
    reading = compile_kernel(kernel, capability).loop
    assert sum("LDG.E.128 " in line for line in reading) == 8
    assert len(reading) / 8 < 16, "more instructions than can be issued in the 4 clocks of a load from L1"


def test_a_gpu_block_expects_the_sum_of_all_passes() -> None:
    from accelbench.kernels.cache import gpu_bandwidth

    words = np.random.default_rng(2).integers(0, 1 << 32, 4096, np.uint32)
    expected = sum((int(x) ^ int(y)) + (int(z) ^ int(w)) for x, y, z, w in words.reshape(-1, 4)) * 5 % 2**32
    assert gpu_bandwidth.expected_sum(words, 5) == expected
    words[7] ^= 1
    assert gpu_bandwidth.expected_sum(words, 5) != expected
