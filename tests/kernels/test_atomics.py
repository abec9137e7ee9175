"""No atomic addition is lost, and a lost one shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelbench.kernels.atomics import atomics, cpu_numba
from accelbench.kernels.lib.cpu.threads import atomic_add, compiled, thread_count
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepared(target: str) -> Task:
    return atomics(Point("atomics", "cpu", {"target": target, "dtype": "int64"}, seed=7))


@pytest.mark.parametrize("target", ["one", "own"])
def test_every_thread_adds_to_its_counter(target: str) -> None:
    task = prepared(target)
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.work.items == thread_count() * cpu_numba.ADDITIONS[target]


@pytest.mark.parametrize("target", ["one", "own"])
@pytest.mark.parametrize("fault", ["one addition lost", "a thread lost", "another counter"])
def test_a_lost_addition_fails(target: str, fault: str, monkeypatch: Any) -> None:
    honest = cpu_numba.add_on_all

    def faulty(counters: Any, places: Any, values: Any, additions: int) -> None:
        honest(counters, places, values, additions)
        if fault == "one addition lost":
            counters[places[0]] -= values[0]
        elif fault == "a thread lost":
            counters[places[-1]] -= additions * values[-1]
        else:
            counters[places[-1] + 1] += 1

    task = prepared(target)
    monkeypatch.setattr(cpu_numba, "add_on_all", faulty)
    assert not task.verify().passed


def test_additions_are_atomic_instructions_on_the_counter_that_is_named() -> None:
    counters = np.zeros(2, np.int64)
    cpu_numba.add_many(counters, 1, 7, 10)
    assert counters.tolist() == [0, 70]
    assert "atomicrmw add" in "".join(cpu_numba.add_many.inspect_llvm().values())


def test_only_int64_counters_are_accepted() -> None:
    @compiled
    def add(counters: Any) -> None:
        atomic_add(counters, 0, 1)

    for wrong in (np.zeros(1, np.int32), np.zeros(1), np.zeros((1, 1), np.int64)):
        with pytest.raises(Exception, match="atomic_add"):
            add(wrong)
    right = np.zeros(1, np.int64)
    add(right)
    assert right[0] == 1


TARGETS = ("one", "warp", "own", "random", "block")


@pytest.mark.parametrize("target", TARGETS)
def test_the_gpu_counters_are_expected_as_one_by_one_addition_leaves_them(target: str) -> None:
    from accelbench.kernels.atomics import gpu_numba as gpu

    rng = np.random.default_rng(4)
    threads, additions = 512, 5
    count = 1 << gpu.RANDOM_BITS if target == "random" else threads
    start, values = rng.integers(-7, 8, count), rng.integers(-7, 8, threads)
    seeds = rng.integers(0, 1 << 32, threads, np.uint32)
    counters = start.copy()
    for thread in range(threads):
        state, value = int(seeds[thread]), int(values[thread])
        for _ in range(additions):
            place = {"one": 0, "warp": thread // 32 * 32, "own": thread, "block": thread // gpu.THREADS}.get(
                target, state >> (32 - gpu.RANDOM_BITS)
            )
            counters[place] += value
            value, state = -value, (state * 1664525 + 1013904223) % 2**32
    expected = gpu.expected_counters(target, start, values, seeds, additions)
    assert gpu.verify_counters(expected, counters).passed
    counters[np.flatnonzero(counters)[0]] += 1
    assert not gpu.verify_counters(expected, counters).passed


@pytest.mark.parametrize("target", TARGETS)
def test_additions_to_gpu_memory_are_not_waited_for(target: str) -> None:
    from accelbench.kernels.atomics import gpu_numba
    from accelbench.kernels.lib.gpu.compilation import compile_kernel

    (kernel,) = (kernel for kernel in gpu_numba.device_code() if kernel.name == f"atomics {target} float32")
    loop = compile_kernel(kernel, (9, 0)).loop
    assert any(("ATOMS" if target == "block" else "REDG.E.ADD.F32") in line for line in loop)
    assert not any("ATOMG" in line for line in loop)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_additions_in_float32_are_instructions_that_no_version_of_the_compiler_refuses(
    target: str, capability: tuple[int, int]
) -> None:
    # libNVVM of CUDA 12.9 knows no function for them on Blackwell; what is in PTX already it hands on.
    from accelbench.kernels.atomics import gpu_numba
    from accelbench.kernels.lib.gpu.compilation import to_ptx

    (kernel,) = (kernel for kernel in gpu_numba.device_code() if kernel.name == f"atomics {target} float32")
    ptx = to_ptx(kernel, capability)
    assert f"red.{'shared' if target == 'block' else 'global'}.add.f32" in ptx
    assert "atom." not in ptx


@pytest.mark.parametrize("wrong", ["float64", "two dimensions", "another type"])
def test_only_what_the_device_adds_atomically_is_accepted(wrong: str) -> None:
    from accelbench.kernels.atomics.additions import add_to_memory
    from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64, int32, void

    def add(counters: Any, value: Any) -> None:
        add_to_memory(counters, 0, value)

    counters = {"float64": float64[::1], "two dimensions": float32[:, ::1], "another type": float32[::1]}[wrong]
    value = {"float64": float64, "two dimensions": float32, "another type": int32}[wrong]
    with pytest.raises(Exception, match="add"):
        cuda.compile_ptx(add, void(counters, value), cc=(9, 0))
    assert "red.global.add.f32" in cuda.compile_ptx(add, void(float32[::1], float32), cc=(9, 0))[0]


def test_no_counter_of_float32_can_leave_the_whole_numbers() -> None:
    from accelbench.kernels.atomics import gpu_numba as gpu

    multiprocessors = 1024  # six times the largest card there is
    assert gpu.LARGEST * (multiprocessors * gpu.BLOCKS_PER_MULTIPROCESSOR * gpu.THREADS + 1) < 2**24
    assert gpu.ADDITIONS % 2 == 1
