"""Transfers, launches, the vendor's copy and the arithmetic peak on a real device: correct results."""

from __future__ import annotations

import pytest

from accelbench.execution.plan import discover
from accelbench.kernels.transfer import DIRECTION, MEMORY
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float64", "float16", "bfloat16")


def check(task: Task) -> None:
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("kib", [4, 100, 1024, 65536])
@pytest.mark.parametrize("direction", DIRECTION)
@pytest.mark.parametrize("memory", MEMORY)
def test_every_byte_arrives(prepared: Prepare, memory: str, direction: str, kib: int) -> None:
    task = prepared("transfer.gpu_cupy", memory=memory, direction=direction, kib=kib)
    task.run()
    check(task)


@pytest.mark.parametrize("direction", DIRECTION)
@pytest.mark.parametrize("memory", MEMORY)
def test_copies_have_a_latency_and_a_bandwidth(prepared: Prepare, memory: str, direction: str) -> None:
    task = prepared("transfer.gpu_fit", memory=memory, direction=direction, kib=65536)
    check(task)
    for _ in range(5):
        task.run()
    assert task.metrics is not None
    found = task.metrics(1.0)
    assert 1e8 < found["bandwidth"].value < 1e13
    assert found["latency"].value < 1e-2


@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_a_replayed_graph_launches_every_node_each_time(prepared: Prepare, implementation: str) -> None:
    task = prepared(f"launch.gpu_{implementation}", mode="graph")
    for _ in range(3):
        task.run()
        check(task)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_vendor_copies_every_element(prepared: Prepare, dtype: str) -> None:
    check(prepared("stream.gpu_vendor", op="copy", dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_sum_of_every_thread_is_exact(prepared: Prepare, dtype: str) -> None:
    task = prepared("peak_arith.gpu_fma", dtype=dtype, cores="all")
    for _ in range(2):
        task.run()
        check(task)
    assert task.metrics is not None
    # No multiprocessor does more than 1,024 FLOP per clock without matrix instructions.
    assert 1 < task.metrics(1.0)["FLOP per cycle per multiprocessor"].value <= 1024


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("all-gpus-peak-arith", {"dtype": "float32"}),
        ("all-gpus-matmul", {"dtype": "bfloat16", "n": 2048}),
        ("all-gpus-stream", {"dtype": "float64"}),
    ],
)
def test_all_visible_cards_work_at_once_and_each_is_verified(name: str, params: dict[str, str | int]) -> None:
    task = discover()[name].prepare(Point(name, "gpu", params, seed=7))
    assert isinstance(task, Task)
    task.run()
    check(task)
    assert task.sample is not None
    assert 0.1 < task.sample(2) < 5
    assert task.metrics is not None
    cards = [metric.value for card, metric in task.metrics(1.0).items() if card.startswith("card ")]
    assert task.layout is not None
    assert len(cards) == task.layout.devices
    assert min(cards) > 1e9


@pytest.mark.parametrize(
    ("module", "params"),
    [
        ("stream.gpu_vendor", {"op": "copy", "dtype": "float32"}),
        ("stream.gpu_numba", {"op": "triad", "dtype": "float64"}),
        ("stream.gpu_cupy", {"op": "triad", "dtype": "float64"}),
        ("peak_arith.gpu_fma", {"dtype": "float32", "cores": "all"}),
    ],
)
def test_work_is_enqueued_on_the_given_stream(
    prepared: Prepare, enqueued: Enqueued, module: str, params: dict[str, str | int]
) -> None:
    enqueued(prepared(module, **params))
