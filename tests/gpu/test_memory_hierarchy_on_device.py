"""Caches, sums, passes over memory and atomic additions on a real device: correct results on any stream."""

from __future__ import annotations

import pytest

from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import attribute, synchronize
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
def test_every_block_reads_the_complete_set(prepared: Prepare, kib: int) -> None:
    check(prepared("cache.gpu_bandwidth", kib=kib, cores="all"))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_the_sum_is_exact(prepared: Prepare, implementation: str, dtype: str) -> None:
    check(prepared(f"reduce.gpu_{implementation}", dtype=dtype))


@pytest.mark.parametrize("implementation", ["numba", "cupy"])
@pytest.mark.parametrize("width", [1, 3, 1024, 1001, 8192])
def test_every_row_is_normalized(prepared: Prepare, implementation: str, width: int) -> None:
    check(prepared(f"norm.gpu_{implementation}", width=width))


@pytest.mark.parametrize("implementation", ["numba", "cupy"])
@pytest.mark.parametrize("vocabulary", [1, 4001, 32_000, 50_257])
def test_every_row_has_its_loss_and_its_gradient(prepared: Prepare, implementation: str, vocabulary: int) -> None:
    check(prepared(f"softmax_xent.gpu_{implementation}", vocabulary=vocabulary))


@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_every_parameter_takes_one_step(prepared: Prepare, implementation: str) -> None:
    task = prepared(f"optimizer_step.gpu_{implementation}")
    check(task)
    task.run()
    check(task)


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
        ("norm.gpu_numba", {"width": 1024}),
        ("norm.gpu_cupy", {"width": 1024}),
        ("softmax_xent.gpu_numba", {"vocabulary": 32_000}),
        ("softmax_xent.gpu_cupy", {"vocabulary": 32_000}),
        ("optimizer_step.gpu_numba", {}),
        ("optimizer_step.gpu_cupy", {}),
        ("atomics.gpu_numba", {"target": "random", "dtype": "int32"}),
    ],
)
def test_work_is_enqueued_on_the_given_stream(
    prepared: Prepare, enqueued: Enqueued, module: str, params: dict[str, str | int]
) -> None:
    enqueued(prepared(module, **params))
