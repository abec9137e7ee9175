"""Every GPU kernel on a real device, on a separate stream, with correct results."""

from __future__ import annotations

import pytest

from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import synchronize
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu


def check(task: Task) -> None:
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad", "dot"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_stream_moves_every_element(prepared: Prepare, implementation: str, dtype: str, op: str) -> None:
    check(prepared(f"stream.gpu_{implementation}", dtype=dtype, op=op))


@pytest.mark.parametrize("queens", [1, 2, 3, 8, 12, 14, 16])
@pytest.mark.parametrize("implementation", ["prefix", "cdp"])
def test_search_finds_the_published_counts(prepared: Prepare, implementation: str, queens: int) -> None:
    check(prepared(f"treesearch.nqueens.gpu_{implementation}", queens=queens))


@pytest.mark.parametrize("mode", ["latency", "throughput"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_launches_reach_the_device(prepared: Prepare, implementation: str, mode: str) -> None:
    task = prepared(f"launch.gpu_{implementation}", mode=mode)
    task.run()
    check(task)


@pytest.mark.parametrize(
    ("module", "params"),
    [
        ("matmul.gpu_numba", {"dtype": "float32", "n": 512}),
        ("stream.gpu_numba", {"dtype": "float32", "op": "dot"}),
        ("stream.gpu_cupy", {"dtype": "float32", "op": "dot"}),
        ("treesearch.nqueens.gpu_prefix", {"queens": 12}),
        ("treesearch.nqueens.gpu_cdp", {"queens": 12}),
    ],
)
def test_work_is_enqueued_on_the_given_stream(
    prepared: Prepare, enqueued: Enqueued, module: str, params: dict[str, str | int]
) -> None:
    enqueued(prepared(module, **params))


SPIN = r"""
extern "C" __global__ void spin(long long clocks) {
    for (long long begin = clock64(); clock64() - begin < clocks;);
}
"""


def test_the_vendors_product_is_enqueued_on_the_given_stream(prepared: Prepare) -> None:
    """CuPy refuses to capture cuBLAS, so the product is started behind a kernel that occupies its stream."""
    import cupy

    task = prepared("matmul.gpu_vendor", dtype="float32", n=512)
    task.run()  # loads cuBLAS and allocates its workspace
    check(task)
    stream, before, after = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), cupy.cuda.Event()
    spin = cupy.RawKernel(SPIN, "spin")
    spin((1,), (1,), (1,))  # compiles
    synchronize()
    with stream:
        before.record()
        spin((1,), (1,), (400_000_000,))
    task.run(stream.ptr)
    after.record(stream)
    assert not after.done, "the product waited for its stream on the host"
    cupy.cuda.Stream.null.synchronize()
    assert not after.done
    after.synchronize()
    assert cupy.cuda.get_elapsed_time(before, after) > 100
    check(task)
