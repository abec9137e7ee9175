"""Tasks of GPU implementations on arrays in host memory: faults found by verification, array operations by NumPy.

`tests.ptx` executes the kernels; `tests.rehearsal` prepares and verifies every implementation with kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.launch import counting
from accelbench.kernels.lib import random_array
from accelbench.kernels.lib.gpu import array_task, arrays
from accelbench.kernels.lib.random_array import draw_normal, draw_whole
from accelbench.kernels.reduce.reference import SUM_TYPE, problem
from accelbench.kernels.stream import gpu_task
from accelbench.profiling.devices import cupy_device
from accelbench.profiling.records.point import Point
from accelbench.soak.checked_task import CheckedTask
from accelbench.soak.unit_process import execution
from tests.kernels import host_cupy

Run = Callable[[int], None]


@pytest.fixture(autouse=True)
def small_arrays_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of 16 KiB with repeated blocks, checked in several parts."""
    stand_ins: dict[str, Any] = {
        "attribute": {"L2CacheSize": 1 << 12, "MultiProcessorCount": 2}.__getitem__,
        "cupy_library": lambda: host_cupy.cupy,
        "cupy_stream": lambda handle: nullcontext(),
        "free_memory": lambda: 1 << 30,
        "require_device_memory": lambda needed: None,
        "synchronize": lambda: None,
    }
    for name, stand_in in stand_ins.items():
        for module in (array_task, arrays, counting, cupy_device, gpu_task):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stand_in)
    for module, name, value in [
        (arrays, "MIN_BYTES", 4000), (arrays, "MOST_BYTES", 0), (random_array, "PERIODS", (67, 71)),
        (random_array, "PART", 100), (gpu_task, "PART", 100), (gpu_task, "DOWNLOADED", 300),
    ]:  # fmt: skip
        monkeypatch.setattr(module, name, value)


def point(benchmark: str, **params: str | int) -> Point:
    return Point(benchmark, "gpu", params, seed=7)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("norm", {"width": 517}), ("softmax_xent", {"vocabulary": 1031}), ("optimizer_step", {}),
        ("reduce", {"dtype": "int32"}), ("reduce", {"dtype": "float64"}),
    ],
)  # fmt: skip
def test_the_array_operations_of_cupy_give_the_same_results_by_numpy(
    name: str, params: dict[str, int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_host = SimpleNamespace(**{**vars(np), **vars(host_cupy.cupy)})
    monkeypatch.setattr(array_task, "cupy_library", lambda: on_host)
    task = import_module(f"accelbench.kernels.{name}.gpu_cupy").prepare(point(name, impl="cupy", **params))
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize("dtype", sorted(SUM_TYPE))
@pytest.mark.parametrize("place", [0, 66, 67, 2000, -1])
@pytest.mark.parametrize("fault", ["left out", "twice", "not written"])
def test_omitted_and_duplicated_elements_are_detected(dtype: str, place: int, fault: str) -> None:
    def bind(x: Any, out: Any) -> Run:
        def run(stream: int) -> None:
            numbers = x.get()
            wrong = {"left out": -numbers[place], "twice": numbers[place]}.get(fault)
            if wrong is not None:
                out.set(np.array([numbers.sum(dtype=np.float64) + wrong], out.dtype))

        return run

    given = point("reduce", impl="own", dtype=dtype)
    assert not array_task.array_task(given, problem(given), bind).verify().passed


def test_an_array_between_two_positions_equals_its_parts() -> None:
    numbers = draw_normal(np.random.default_rng(3), "float32")
    assert numbers.between(99, 950).tobytes() == np.concatenate(list(numbers.parts(99, 950))).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_device_and_host_generate_the_same_numbers(dtype: str) -> None:
    rng = np.random.default_rng(3)
    numbers = draw_whole(rng, 15) if dtype == "int32" else draw_normal(rng, dtype)
    array = host_cupy.empty(3001, dtype)
    arrays.put(numbers, array)
    host = array.get()
    for begin, end in ((0, 3001), (99, 100), (101, 2950), (3000, 3001)):
        formed = np.concatenate(list(numbers.parts(begin, end))).astype(dtype)
        assert formed.tobytes() == host[begin:end].tobytes()


def copy_by(read: Callable[[Any], Any]) -> Callable[..., Run]:
    """Return a copy kernel that reads each element at the index from `read`."""

    def bind(x: Any, y: Any, sums: Any, out: Any) -> Run:
        return lambda stream: out.set(read(x.get()))

    return bind


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda x: np.roll(x, 67), id="a period of one factor away"),
        pytest.param(lambda x: np.roll(x, 71), id="a period of the other away"),
        pytest.param(lambda x: np.resize(x[: 67 * 8], len(x)), id="always the same short piece"),
        pytest.param(lambda x: np.where(np.arange(len(x)) == 1999, x[1999 - 67], x), id="one element from elsewhere"),
        pytest.param(lambda x: np.where(np.arange(len(x)) == 2000, np.float32(np.nan), x), id="one not written"),
        pytest.param(lambda x: np.nextafter(x, np.float32(9)), id="off by one bit"),
    ],
)
def test_a_copy_that_reads_the_wrong_element_fails(read: Callable[[Any], Any]) -> None:
    given = point("stream", impl="own", op="copy", dtype="float32")
    assert gpu_task.make_task(given, copy_by(lambda x: x)).verify().passed
    outcome = gpu_task.make_task(given, copy_by(read)).verify()
    assert not outcome.passed
    assert outcome.tolerance == 0


def test_the_bits_of_a_copy_repeat_and_one_bit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def read(x: Any) -> Any:
        calls.append(len(x))
        return np.where(np.arange(len(x)) == 1999, np.nextafter(x, np.float32(9)), x) if len(calls) == 3 else x

    given = point("stream", impl="own", op="copy", dtype="float32")
    task = gpu_task.make_task(given, copy_by(read))
    monkeypatch.setattr(type(cupy_device.gpu_backend()), "synchronize", lambda self: None)
    checked = CheckedTask(task, execution(task, cupy_device.gpu_backend()))
    assert [checked.verify().is_right, checked.run().is_right] == [True, True]
    difference = checked.run().difference
    assert difference is not None
    assert (difference.element, difference.elements) == (1999, 1)


@pytest.mark.parametrize("fault", ["one product left out", "one product twice", "y of a period away"])
def test_a_dot_product_is_verified_including_its_last_product(fault: str) -> None:
    def faulty(x: Any, y: Any) -> Any:
        if fault == "y of a period away":
            return x @ np.roll(y, 67)
        return x @ y + (x[2000] * y[2000] if fault == "one product twice" else -x[2000] * y[2000])

    def bind_to(dot: Callable[[Any, Any], Any]) -> Callable[..., Run]:
        def bind(x: Any, y: Any, sums: Any, out: Any) -> Run:
            return lambda stream: out.set(np.array([dot(x.get(), y.get())], out.dtype))

        return bind

    given = point("stream", impl="own", op="dot", dtype="float32")
    assert gpu_task.make_task(given, bind_to(np.dot)).verify().passed
    outcome = gpu_task.make_task(given, bind_to(faulty)).verify()
    assert not outcome.passed
    assert "exactly" in outcome.method


@pytest.mark.parametrize(("every", "passes"), [(1, True), (2, False)])
def test_lost_launches_fail_the_verification(every: int, passes: bool) -> None:
    launched: list[int] = []

    def launch() -> None:
        launched.append(len(launched))

    def take_count() -> int:
        count = len(launched) // every
        launched.clear()
        return count

    kernels = counting.Kernels(lambda handle: launch, lambda handle: launch, take_count)
    outcome = counting.make_task(point("launch", mode="throughput"), kernels).verify()
    assert outcome.passed is passes
    assert (outcome.expected, outcome.found) == ("1000", str(1000 // every))
