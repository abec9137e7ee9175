"""Atomic additions: none is lost, and a lost one fails the verification."""

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


def test_additions_are_atomic_instructions_on_the_given_counter() -> None:
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


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("target", TARGETS)
def test_the_expected_gpu_counters_are_those_of_sequential_additions(target: str, dtype: str) -> None:
    from accelbench.kernels.atomics import gpu_numba as gpu

    rng = np.random.default_rng(4)
    threads, additions = 512, 5
    count = 1 << gpu.RANDOM_BITS if target == "random" else threads
    start, values = rng.integers(-7, 8, count).astype(dtype), gpu.draw_values(rng, target, dtype, threads)
    seeds = rng.integers(0, 1 << 32, threads, np.uint32)
    counters = start.copy()
    for thread in range(threads):
        state, value, both = int(seeds[thread]), values[2 * thread], values[2 * thread + 1]
        for _ in range(additions):
            place = {"one": 0, "warp": thread // 32 * 32, "own": thread, "block": thread // gpu.THREADS}.get(
                target, state >> (32 - gpu.RANDOM_BITS)
            )
            counters[place] += value
            value, state = both - value, (state * 1664525 + 1013904223) % 2**32
    expected = gpu.expected_counters(target, start, values, seeds, additions)
    assert gpu.verify_counters(expected, counters).passed
    counters[np.flatnonzero(counters)[0]] += 1
    assert not gpu.verify_counters(expected, counters).passed


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("target", TARGETS)
def test_any_other_number_of_gpu_additions_fails(target: str, dtype: str) -> None:
    from accelbench.kernels.atomics import gpu_numba as gpu

    rng = np.random.default_rng(6)
    threads = 64
    count = 1 << gpu.RANDOM_BITS if target == "random" else threads
    start, values = rng.integers(-7, 8, count), gpu.draw_values(rng, target, dtype, threads)
    seeds = rng.integers(0, 1 << 32, threads, np.uint32)
    expected = gpu.expected_counters(target, start, values, seeds, gpu.ADDITIONS)
    for made in (0, 1, 2, 3, 5, gpu.ADDITIONS - 2, gpu.ADDITIONS - 1, gpu.ADDITIONS + 1, gpu.ADDITIONS + 2):
        found = gpu.expected_counters(target, start, values, seeds, made)
        assert not gpu.verify_counters(expected, found).passed, made
    second_warp = np.concatenate((np.zeros(2 * gpu.WARP, values.dtype), values[2 * gpu.WARP :]))
    lost = gpu.expected_counters(target, np.zeros(count), second_warp, seeds, 2)
    assert not gpu.verify_counters(expected, expected - lost).passed


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
def test_additions_in_float32_compile_with_every_version_of_the_compiler(
    target: str, capability: tuple[int, int]
) -> None:
    # libNVVM of CUDA 12.9 has no intrinsic for them on Blackwell; it passes inline PTX unchanged.
    from accelbench.kernels.atomics import gpu_numba
    from accelbench.kernels.lib.gpu.compilation import to_ptx

    (kernel,) = (kernel for kernel in gpu_numba.device_code() if kernel.name == f"atomics {target} float32")
    ptx = to_ptx(kernel, capability)
    assert f"red.{'shared' if target == 'block' else 'global'}.add.f32" in ptx
    assert "atom." not in ptx


@pytest.mark.parametrize("wrong", ["float64", "two dimensions", "another type"])
def test_only_types_with_atomic_addition_are_accepted(wrong: str) -> None:
    from accelbench.kernels.atomics.additions import add_to_memory
    from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64, int32, void

    def add(counters: Any, value: Any) -> None:
        add_to_memory(counters, 0, value)

    counters = {"float64": float64[::1], "two dimensions": float32[:, ::1], "another type": float32[::1]}[wrong]
    value = {"float64": float64, "two dimensions": float32, "another type": int32}[wrong]
    with pytest.raises(Exception, match="add"):
        cuda.compile_ptx(add, void(counters, value), cc=(9, 0))
    assert "red.global.add.f32" in cuda.compile_ptx(add, void(float32[::1], float32), cc=(9, 0))[0]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("target", TARGETS)
def test_counters_stay_exact(target: str, dtype: str) -> None:
    from accelbench.kernels.atomics import gpu_numba as gpu

    threads = 1024 * gpu.BLOCKS_PER_MULTIPROCESSOR * gpu.THREADS  # six times the largest card there is
    first, both = gpu.draw_values(np.random.default_rng(8), target, dtype, threads).astype(np.float64).reshape(-1, 2).T
    # The largest sum in any order of the threads' additions; `random` spreads them over half as many counters.
    largest = np.maximum(first, gpu.ADDITIONS // 2 * both + np.maximum(first, 0))
    sharers = {"one": threads, "warp": gpu.WARP, "own": 1, "block": gpu.THREADS, "random": 2 * gpu.ADDITIONS}[target]
    bound = gpu.LARGEST + (largest.sum() if target == "one" else largest.max() * sharers)
    assert bound < {"float32": 2**24, "int32": 2**31, "int64": 2**63}[dtype]
