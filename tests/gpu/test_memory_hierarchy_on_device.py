"""Caches, sums and atomic additions on a real device: every answer is right, on whatever stream they run."""

from __future__ import annotations

import pytest

from profiling.benchmark import Task
from profiling.machine.nvidia.cuda import attribute, synchronize
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu

TARGETS = ("one", "warp", "own", "random", "block")


def check(task: Task) -> None:
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("kib", [1, 16, 48, 192, 1000, 65536, 524288])
def test_the_chase_ends_where_the_cycle_leads(prepared: Prepare, kib: int) -> None:
    task = prepared("cache.gpu_latency", kib=kib)
    check(task)
    task.run()
    check(task)


@pytest.mark.alone
def test_an_access_takes_longer_in_each_further_level(prepared: Prepare) -> None:
    l2 = attribute("L2CacheSize") // 1024
    cycles = []
    for kib in (32, l2 // 8, 8 * l2):
        task = prepared("cache.gpu_latency", kib=kib)
        task.run()
        task.run()
        synchronize()
        assert task.metrics is not None
        cycles.append(task.metrics(1.0)["cycles per access"].value)
    assert 10 < cycles[0] < cycles[1] < cycles[2] < 5000, cycles


@pytest.mark.parametrize("kib", [16, 48, 192, 4096, 65536, 524288])
def test_every_block_reads_the_whole_set(prepared: Prepare, kib: int) -> None:
    check(prepared("cache.gpu_bandwidth", kib=kib, cores="all"))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_the_sum_is_exact(prepared: Prepare, implementation: str, dtype: str) -> None:
    check(prepared(f"reduce.gpu_{implementation}", dtype=dtype))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("target", TARGETS)
def test_no_addition_is_lost(prepared: Prepare, target: str, dtype: str) -> None:
    check(prepared("atomics.gpu_numba", target=target, dtype=dtype))


@pytest.mark.parametrize(
    ("module", "params"),
    [
        ("cache.gpu_latency", {"kib": 64}),
        ("cache.gpu_bandwidth", {"kib": 64, "cores": "all"}),
        ("reduce.gpu_numba", {"dtype": "float32"}),
        ("reduce.gpu_cupy", {"dtype": "float32"}),
        ("atomics.gpu_numba", {"target": "random", "dtype": "int32"}),
    ],
)
def test_work_is_enqueued_on_the_stream_that_is_handed_over(
    prepared: Prepare, enqueued: Enqueued, module: str, params: dict[str, str | int]
) -> None:
    enqueued(prepared(module, **params))
