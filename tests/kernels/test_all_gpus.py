"""All GPUs of a simulated node at the same time: metrics of each GPU, outliers, and failures.

The simulation follows CUDA's rules: the current device belongs to a thread, and work can be enqueued on a stream only
while its device is current.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelbench.execution.plan import discover
from accelbench.kernels.all_gpus import card as card_module
from accelbench.kernels.all_gpus import together
from accelbench.kernels.all_gpus.comparison import OUTLIER, compare, outliers
from accelbench.profiling.analysis.roofline import ceilings, share_of_ceiling, share_of_peak
from accelbench.profiling.benchmark import Benchmark, Skip, Task, axis
from accelbench.profiling.devices import device_kind
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from tests.fixtures.report_pages import printed
from tests.fixtures.report_runs import environment, make_run

FLOPS = 1e12


@dataclass
class Stream:
    """Simulated stream of one GPU; its clock advances by the duration of the work when the work is enqueued."""

    device: int
    ptr: int
    now: float = 0.0


class Event:
    """Simulated event; it completes after all GPUs have started their work of the window."""

    def __init__(self, node: Node) -> None:
        self.node, self.at, self.waited_for = node, 0.0, False

    def record(self, stream: Stream) -> None:
        self.at = stream.now
        self.node.record(stream.device)

    def synchronize(self) -> None:
        self.node.wait_for_all()
        self.waited_for = True


@dataclass
class Node:
    """Simulated node, given by the seconds per execution of each GPU, which vary by a thousandth."""

    seconds: Sequence[float]
    model: Sequence[str] = ()
    wrong: frozenset[int] = frozenset()
    """GPUs with wrong results."""
    broken: frozenset[int] = frozenset()
    """GPUs that cannot execute."""
    current: threading.local = field(default_factory=threading.local)
    streams: dict[int, Stream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.addresses = count(1000)
        self.events = [0] * len(self.seconds)
        self.lock = threading.Condition()

    def use_device(self, index: int) -> None:
        assert not hasattr(self.current, "index"), "one thread per GPU"
        self.current.index = index

    def stream(self, non_blocking: bool) -> Stream:
        assert non_blocking, "a blocking stream"
        with self.lock:
            made = Stream(self.current.index, next(self.addresses))
        return self.streams.setdefault(made.ptr, made)

    def record(self, device: int) -> None:
        with self.lock:
            self.events[device] += 1
            self.lock.notify_all()

    def wait_for_all(self) -> None:
        """Wait until every GPU has recorded the first of the two events of this window."""
        with self.lock:
            begun = self.events[self.current.index] - 1
            assert self.lock.wait_for(lambda: min(self.events) >= begun, timeout=20), "GPUs are not concurrent"

    def elapsed_ms(self, began: Event, ended: Event) -> float:
        assert ended.waited_for
        return (ended.at - began.at) * 1e3

    def execute(self, address: int) -> None:
        stream = self.streams[address]
        assert stream.device == self.current.index, "stream of another device"
        if stream.device in self.broken:
            raise RuntimeError("an illegal memory access was encountered")
        with self.lock:
            stream.now += self.seconds[stream.device] * (1 + 0.001 * self.rng.standard_normal())

    def devices(self) -> list[SimpleNamespace]:
        models = self.model or ["NVIDIA H100 80GB HBM3"] * len(self.seconds)
        return [SimpleNamespace(name=name, pci_bus_id=f"0000:{65 + i:x}:00.0") for i, name in enumerate(models)]

    def prepare(self, point: Point) -> Task:
        """Return the task of a summation kernel on the current device."""
        device, rng = self.current.index, point.rng()
        assert point.seed == 7 + device

        def verify() -> Verification:
            assert self.current.index == device
            numbers = rng.integers(0, 1000, 100)
            found = int(numbers.sum()) + (device in self.wrong)
            return Verification(found == numbers.sum(), "the sum", expected=str(numbers.sum()), found=str(found))

        amount = {"bytes": FLOPS} if point.params.get("op") else {"flops": FLOPS}
        return Task(run=self.execute, verify=verify, work=Work(**amount))


Install = Callable[..., Node]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Function that installs a simulated node with the kernel `accelbench.kernels.made_up`: `install([1e-3, 2e-3])`."""

    def build(seconds: Sequence[float], **changes: Any) -> Node:
        node = Node(seconds, **changes)
        cuda = SimpleNamespace(Event=lambda: Event(node), Stream=node.stream, get_elapsed_time=node.elapsed_ms)
        for module in (card_module, together):
            monkeypatch.setattr(module, "library", {"cupy": SimpleNamespace(cuda=cuda)}.__getitem__)
        monkeypatch.setattr(card_module, "use_device", node.use_device)
        monkeypatch.setattr(together, "Driver", lambda: node)
        made_up = ModuleType("accelbench.kernels.made_up")
        made_up.prepare = node.prepare  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "accelbench.kernels.made_up", made_up)
        return node

    return build


POINT = Point("all-gpus-matmul", "gpu", {"dtype": "bfloat16"}, seed=7)


def task(**params: str) -> Task:
    return together.prepare(POINT, "made_up", params)


def measured(metric: Any = "flops", **params: str) -> Record:
    """Return the record of the simulated node from a real measurement."""
    benchmark = Benchmark(
        "all-gpus-matmul",
        lambda point: together.prepare(point, "made_up", params),
        ("gpu",),
        {},
        metric,
        bound="arithmetic" if metric == "flops" else "memory",
        dtype=axis("dtype"),
    )
    return measure(benchmark, POINT, environment(), max_seconds=30)


NAMES = [f"card {i} (0000:{65 + i:x}:00.0)" for i in range(8)]


def test_the_result_is_the_sum_over_all_concurrent_cards(install: Install) -> None:
    install([1e-3, 1e-3, 2e-3, 1e-3])
    record = measured()
    assert record.status == "measured", record.reason
    assert record.rate() == pytest.approx(3.5 * FLOPS / 1e-3, rel=0.002)
    assert record.layout.devices == record.layout.computing_devices == 4
    assert record.metrics["cards"].value == 4


def test_the_slow_card_of_a_node_is_an_outlier_and_the_spread_is_reported(install: Install) -> None:
    install([1e-3, 1.01e-3, 1e-3, 1.25e-3, 0.99e-3])
    found = measured().metrics
    name = f"outlier: {NAMES[3]}, slower by"
    assert next(iter(found)) == name
    assert [each for each in found if each.startswith("outlier")] == [name]
    assert found[name].value == pytest.approx(20, abs=0.5)
    assert found["spread, fastest over slowest"].value == pytest.approx(100 * (1.25 / 0.99 - 1), abs=0.5)
    assert found["slowest card"].value == pytest.approx(FLOPS / 1.25e-3, rel=0.002)
    assert found["median card"].value == pytest.approx(FLOPS / 1e-3, rel=0.002)
    assert found["fastest card"].value == pytest.approx(FLOPS / 0.99e-3, rel=0.002)
    assert [found[card].unit for card in NAMES[:5]] == ["FLOP/s"] * 5
    assert found[NAMES[3]] == found["slowest card"]


def test_every_card_works_during_the_complete_window(install: Install) -> None:
    node = install([1e-3, 4e-3])
    prepared = task()
    begun = {address: stream.now for address, stream in node.streams.items()}
    prepared.run()
    for address, stream in node.streams.items():
        assert stream.now - begun[address] == pytest.approx(together.WINDOW_S, rel=0.02)


def test_memory_bandwidth_is_summed_in_bytes(install: Install) -> None:
    install([1e-3, 1e-3])
    record = measured("bytes", op="copy")
    assert record.rate() == pytest.approx(2 * FLOPS / 1e-3, rel=0.002)
    assert record.metrics[NAMES[0]].unit == "B/s"


def test_one_card_is_measured_and_nothing_compared(install: Install) -> None:
    install([1e-3])
    record = measured()
    assert record.rate() == pytest.approx(FLOPS / 1e-3, rel=0.002)
    assert list(record.metrics) == ["cards (one, so there is nothing to compare)", NAMES[0]]


@pytest.mark.parametrize("wrong", [{1}, {0, 2}])
def test_a_card_that_computes_wrongly_fails_the_point_and_is_named(install: Install, wrong: set[int]) -> None:
    install([1e-3] * 3, wrong=frozenset(wrong))
    record = measured()
    assert record.status == "failed"
    assert record.reason
    for i in range(3):
        assert (NAMES[i] in record.reason) == (i in wrong)


def test_a_passed_verification_names_the_number_of_cards(install: Install) -> None:
    install([1e-3] * 3)
    outcome = task().verify()
    assert outcome.passed
    assert outcome.method == "on each of 3 cards: the sum"


def test_a_card_that_cannot_work_fails_the_point_and_is_named(install: Install) -> None:
    install([1e-3] * 3, broken=frozenset({2}))
    record = measured()
    assert record.status == "failed"
    assert record.reason
    assert f"{NAMES[2]}: RuntimeError: an illegal memory access" in record.reason


def test_cards_of_different_models_are_not_compared(install: Install) -> None:
    install([1e-3] * 2, model=["NVIDIA H200", "NVIDIA L4"])
    with pytest.raises(Skip, match=r"one model.*NVIDIA H200, NVIDIA L4"):
        task()


def test_a_requirement_that_a_card_lacks_skips_the_point_and_names_the_card(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = install([1e-3] * 2)

    def prepare(point: Point) -> Task:
        if node.current.index == 1:
            raise Skip("needs 7.00 GiB of device memory")
        return node.prepare(point)

    monkeypatch.setattr(sys.modules["accelbench.kernels.made_up"], "prepare", prepare)
    with pytest.raises(Skip) as skip:
        task()
    assert str(skip.value) == f"{NAMES[1]}: needs 7.00 GiB of device memory"


def test_shares_are_of_as_many_cards_as_worked(install: Install) -> None:
    install([2e-3] * 4)
    several = measured()
    one = device_kind("gpu").peak(environment(), "bfloat16", "flops").value
    assert one
    assert several.peak
    assert several.peak.value == 4 * one
    alone = several.model_copy(
        update={
            "layout": Layout(),
            "ceiling": True,
            "noise": [],  # independent of other load on this machine
            "work": several.work and Work(flops=(several.work.flops or 0) / 4),
        }
    )
    share = share_of_ceiling(several, ceilings([alone]))
    assert share.value == pytest.approx(1.0)
    assert share.of == "bfloat16 arithmetic of 4 devices"
    assert share_of_peak(several).value == pytest.approx(FLOPS / 2e-3 / one, rel=0.002)


def test_the_terminal_lists_the_cards_outliers_first(install: Install, tmp_path: Path) -> None:
    install([1e-3, 1e-3, 1.2e-3])
    out = printed(make_run(tmp_path / "run", [measured()]))
    assert out.index(f"outlier: {NAMES[2]}") < out.index("spread, fastest over slowest") < out.index(f"\n  {NAMES[0]}")


def test_of_two_cards_neither_is_called_the_outlier() -> None:
    rates = {"card 0": 1.0, "card 1": 0.5}
    assert outliers(rates) == {}
    assert compare(rates, "B/s")["spread, fastest over slowest"] == Metric(100, "%")


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([100, 100, 100, 96], []),
        ([100, 100, 100, 94], [3]),
        ([100, 130, 100, 100], []),
        ([100, 80, 100, 70, 100], [1, 3]),
        ([100, 98, 96, 94, 92], [4]),
    ],
    ids=["within the share", "below it", "faster", "two of five", "a gradient"],
)
def test_only_cards_well_below_the_median_of_the_others_are_outliers(rates: list[float], expected: list[int]) -> None:
    found = outliers({str(i): rate for i, rate in enumerate(rates)})
    assert sorted(map(int, found)) == expected
    assert all(share > OUTLIER for share in found.values())


def test_each_benchmark_prepares_the_kernel_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    handed = {}
    monkeypatch.setattr(together, "prepare", lambda point, module, params: handed.update({module: params}))
    for name, benchmark in discover().items():
        if name.startswith("all-gpus"):
            params = {axis: values[0] for axis, values in benchmark.axes_on("gpu").items()}
            benchmark.prepare(Point(name, "gpu", params))
    assert handed == {
        "peak_arith.gpu_fma": {"cores": "all"},
        "matmul.gpu_vendor": {"impl": "vendor"},
        "stream.gpu_vendor": {"impl": "vendor", "op": "copy"},
    }
