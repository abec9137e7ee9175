"""Litmus tests: what relaxed loads may read, in all results of many executions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import Device
from tests.ptx.sources import compile_cuda

pytestmark = pytest.mark.needs("g++")

SEEDS = range(60)
BARRIER = 'asm volatile("bar.sync 0;" ::: "memory");'
ACQ_REL = 'asm volatile("fence.acq_rel.gpu;" ::: "memory");'


def results(first: str, second: str, *, blocks: int = 2) -> set[tuple[int, ...]]:
    """Return the values of `r[0]` and `r[1]` after two threads, of two blocks or two warps of one, have run."""
    body = f"if (one == 0) {{ {first} }} else {{ {second} }}"
    source = (
        'extern "C" __global__ void k(volatile int* x, volatile int* y, int* r)'
        f"{{ if (threadIdx.x % 32) return; const int one = blockIdx.x + threadIdx.x / 32; {body} }}"
    )
    text, found = compile_cuda(source), set()
    for seed in SEEDS:
        device = Device()
        x, y, r = (device.buffer(np.zeros(2, np.int32)) for _ in range(3))
        device.load(text).launch(blocks, 64 // blocks, x, y, r, seed=seed, limit=100_000)
        found.add(tuple(int(value) for value in r.array))
    return found


@pytest.mark.parametrize("fence", ["__threadfence();", ACQ_REL])
def test_messages_are_ordered_by_fences_on_both_sides(fence: str) -> None:
    def pass_message(writer: str, reader: str) -> set[tuple[int, ...]]:
        return results(f"*x = 7; {writer} *y = 1;", f"while (*y == 0); {reader} r[1] = *x;")

    assert pass_message(fence, fence) == {(0, 7)}
    for writer, reader in (("", ""), (fence, ""), ("", fence)):
        assert pass_message(writer, reader) == {(0, 0), (0, 7)}


def test_a_fence_of_the_block_orders_no_messages_between_blocks() -> None:
    sides = "*x = 7; __threadfence_block(); *y = 1;", f"while (*y == 0); {ACQ_REL} r[1] = *x;"
    assert results(*sides) == {(0, 0), (0, 7)}
    assert results(*sides, blocks=1) == {(0, 7)}


def test_stores_are_buffered_without_a_fence() -> None:
    def cross(fence: str) -> set[tuple[int, ...]]:
        return results(f"*x = 1; {fence} r[0] = *y;", f"*y = 1; {fence} r[1] = *x;")

    assert (0, 0) in cross("")
    assert (0, 0) in cross(ACQ_REL)
    assert (0, 0) not in cross("__threadfence();")


def test_a_thread_does_not_read_back_in_time() -> None:
    found = results("*x = 1; *x = 2; *x = 3;", "r[0] = *x; r[1] = *x;")
    assert {first for first, _ in found} == {0, 1, 2, 3}
    assert all(first <= second for first, second in found)


def test_what_was_read_before_a_barrier_is_old_after_it() -> None:
    store = f"{BARRIER} r[1] = *x;"
    found = results(f"r[0] = *x; {store}", f"*x = 1; *x = 2; {BARRIER}", blocks=1)
    assert {first for first, _ in found} == {0, 1, 2}
    assert {second for _, second in found} == {2}


def test_atomics_read_the_newest_value() -> None:
    found = results("*x = 1; atomicAdd((int*)y, 1);", "while (*y == 0); r[1] = atomicAdd((int*)x, 0);")
    assert found == {(0, 1)}
