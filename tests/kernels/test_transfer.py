"""Copies between host and device, simulated by host buffers that are copied at synchronisation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.transfer import DIRECTION, KIB, MEMORY, copies, gpu_fit, transfer, transfer_fit
from accelbench.kernels.transfer.fit import fit_line
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.pcie import LINK_SHARE, PcieLink
from accelbench.profiling.records.point import Point
from tests.kernels import host_cupy

WAYS = {"to-device": 1, "from-device": 1, "both": 2}


class Stream:
    """Simulated stream that copies as late as possible."""

    made: list[Stream]

    def __init__(self, non_blocking: bool) -> None:
        assert non_blocking, "a blocking stream"
        self.made.append(self)
        self.ptr = len(self.made)
        self.queue: list[Callable[[], object]] = []

    def synchronize(self) -> None:
        for work in self.queue:
            work()
        self.queue.clear()


class Device:
    """Simulation of the used part of CuPy, with a record of its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.pinned = 0
        self.streams: list[Stream] = []
        self.lose = 0
        """Number of bytes at the end of every copy that are not copied."""

        def alloc_pinned_memory(size: int) -> bytearray:
            self.pinned += size
            return bytearray(size)

        runtime = SimpleNamespace(memcpyAsync=self.copy, memcpyHostToDevice="H2D", memcpyDeviceToHost="D2H")
        stream = type("Stream", (Stream,), {"made": self.streams})
        self.cupy = SimpleNamespace(
            empty=host_cupy.empty,
            cuda=SimpleNamespace(runtime=runtime, Stream=stream, alloc_pinned_memory=alloc_pinned_memory),
        )

    def copy(self, target: int, source: int, size: int, kind: str, stream: int) -> None:
        self.calls.append((kind, size, stream))
        size -= self.lose
        self.streams[stream - 1].queue.append(lambda: ctypes.memmove(target, source, size))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    stand_in = Device()
    monkeypatch.setattr(copies, "cupy_library", lambda: stand_in.cupy)
    monkeypatch.setattr(copies, "synchronize", lambda: None)
    monkeypatch.setattr(copies, "host_links", lambda: None)
    monkeypatch.setattr(copies, "require_device_memory", lambda needed: None)
    return stand_in


def point(benchmark: str = "transfer", memory: str = "pinned", direction: str = "to-device", kib: int = 64) -> Point:
    return Point(benchmark, "gpu", {"memory": memory, "direction": direction, "kib": kib}, seed=5)


def as_task(prepared: Any) -> Task:
    assert isinstance(prepared, Task)
    return prepared


@pytest.mark.parametrize("direction", DIRECTION)
@pytest.mark.parametrize("memory", MEMORY)
def test_every_byte_arrives(device: Device, memory: str, direction: str) -> None:
    task = as_task(transfer(point(memory=memory, direction=direction, kib=100)))
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.timer == "host"
    assert task.work.bytes == WAYS[direction] * 100 * 1024
    assert device.pinned == (task.work.bytes if memory == "pinned" else 0)


@pytest.mark.parametrize("piece", [1000, 1024, 4096])
@pytest.mark.parametrize("direction", DIRECTION)
def test_memory_is_verified_piece_by_piece(
    device: Device, monkeypatch: pytest.MonkeyPatch, direction: str, piece: int
) -> None:
    monkeypatch.setattr(copies, "PIECE", piece)
    monkeypatch.setattr(copies, "BEYOND", 1500)
    made = copies.Copies(point(direction=direction, kib=5))
    assert made.verify((1, 999, 1000, 1001, 4096, 5120)).passed
    device.lose = 1
    outcome = made.verify((1000, 4096))
    assert not outcome.passed
    assert outcome.found == f"{2 * WAYS[direction]} wrong"


@pytest.mark.parametrize("direction", DIRECTION)
@pytest.mark.parametrize("fault", ["a byte less", "a byte more", "the other way", "not waited for", "nothing"])
def test_a_wrong_copy_fails(device: Device, monkeypatch: pytest.MonkeyPatch, direction: str, fault: str) -> None:
    made = copies.Copies(point(direction=direction, kib=8))
    assert made.verify((4096,)).passed
    if fault == "a byte less":
        device.lose = 1
    elif fault == "a byte more":
        device.lose = -1
    elif fault == "nothing":
        device.lose = 4096
    elif fault == "the other way":
        honest = device.copy
        monkeypatch.setattr(
            device.cupy.cuda.runtime, "memcpyAsync", lambda target, source, *rest: honest(source, target, *rest)
        )
    else:
        monkeypatch.setattr(Stream, "synchronize", lambda self: None)
    assert not made.verify((4096,)).passed


def test_both_directions_are_concurrent_on_separate_streams(device: Device) -> None:
    task = as_task(transfer(point(direction="both", kib=4)))
    waited: list[int] = []
    for stream in device.streams:
        honest = stream.synchronize
        stream.synchronize = lambda stream=stream, honest=honest: (waited.append(len(device.calls)), honest())  # type: ignore
    device.calls.clear()
    task.run()
    assert device.calls == [("H2D", 4096, 1), ("D2H", 4096, 2)]
    assert waited == [2, 2], "a copy is waited for before both are enqueued"


@pytest.mark.parametrize("kib", KIB)
def test_a_size_is_skipped_where_memory_does_not_suffice(
    device: Device, monkeypatch: pytest.MonkeyPatch, kib: int
) -> None:
    asked = []

    def none_left(needed: int) -> None:
        asked.append(needed)
        raise Skip("needs more memory")

    monkeypatch.setattr(copies, "require_memory", none_left)
    for benchmark in (transfer, transfer_fit):
        with pytest.raises(Skip):
            benchmark(point(direction="both", kib=kib))
    monkeypatch.setattr(copies, "require_memory", lambda needed: None)
    monkeypatch.setattr(copies, "require_device_memory", none_left)
    with pytest.raises(Skip):
        transfer(point(direction="both", kib=kib))
    assert asked == [2 * kib * 1024] * 3
    assert not device.streams


@pytest.mark.parametrize(
    ("links", "share"),
    [
        ((PcieLink(5, 16), PcieLink(5, 16)), 100.0),
        ((PcieLink(4, 8), PcieLink(5, 16)), 25.0),
        ((PcieLink(1, 16), PcieLink(3, 16)), 100 * (2.5 * 0.8) / (8 * 128 / 130)),
    ],
)
@pytest.mark.usefixtures("device")
def test_the_link_in_use_is_a_metric(
    monkeypatch: pytest.MonkeyPatch, links: tuple[PcieLink, PcieLink], share: float
) -> None:
    monkeypatch.setattr(copies, "host_links", lambda: links)
    for benchmark, name in ((transfer, "transfer"), (transfer_fit, "transfer-fit")):
        task = as_task(benchmark(point(name, kib=1024)))
        task.run()
        assert task.metrics is not None
        found = task.metrics(1.0)
        assert found[LINK_SHARE].value == pytest.approx(share)
        assert (found["PCIe generation"].value, found["PCIe lanes"].value) == links[0]


@pytest.mark.parametrize("links", [None, (PcieLink(9, 16), PcieLink(9, 16))])
@pytest.mark.usefixtures("device")
def test_an_unknown_link_is_no_metric(monkeypatch: pytest.MonkeyPatch, links: Any) -> None:
    monkeypatch.setattr(copies, "host_links", lambda: links)
    task = as_task(transfer(point()))
    assert task.metrics is not None
    assert task.metrics(1.0) == {}


@given(kib=st.integers(1024, 1 << 20))
def test_the_fit_uses_sizes_from_4_kib_to_the_largest(kib: int) -> None:
    sizes = gpu_fit.sizes_up_to(kib * 1024)
    assert sizes[0] == 4096
    assert sizes[-1] == kib * 1024
    assert all(small < large <= 4 * small for small, large in pairwise(sizes))
    assert gpu_fit.sizes_up_to(1 << 30) == tuple(4096 * 4**i for i in range(10))


@pytest.mark.parametrize("direction", DIRECTION)
def test_the_fit_finds_the_line_that_the_copies_take(
    device: Device, monkeypatch: pytest.MonkeyPatch, direction: str
) -> None:
    clock = [0]

    def advance(made: copies.Copies, size: int) -> None:
        clock[0] += 20_000 + size // 8 * len(made.ways)  # 20 µs, and 8 bytes per nanosecond one way after the other

    honest = copies.Copies.copy
    monkeypatch.setattr(copies.Copies, "copy", lambda made, size: (honest(made, size), advance(made, size)))
    monkeypatch.setattr(gpu_fit, "perf_counter_ns", lambda: clock[0])
    task = as_task(transfer_fit(point("transfer-fit", direction=direction, kib=1024)))
    for _ in range(3):
        task.run()
    assert task.verify().passed
    assert task.metrics is not None
    found = task.metrics(1.0)
    assert found["latency"].value == pytest.approx(20e-6)
    assert found["bandwidth"].value == pytest.approx(8e9)
    assert found["relative residual"].value == pytest.approx(0, abs=1e-9)
    assert [found[name].unit for name in ("latency", "bandwidth")] == ["s", "B/s"]
    assert task.work.items == 5


latencies, bandwidths = st.floats(1e-7, 1e-3), st.floats(1e8, 1e12)
size_lists = st.lists(st.integers(1, 1 << 30), min_size=2, max_size=12, unique=True)


@given(latency=latencies, bandwidth=bandwidths)
def test_exact_times_reproduce_the_line(latency: float, bandwidth: float) -> None:
    sizes = [4096 * 4**i for i in range(10)]
    line = fit_line(sizes, [latency + size / bandwidth for size in sizes])
    assert line.latency == pytest.approx(latency, rel=1e-6)
    assert line.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert line.residual < 1e-9


@given(latency=latencies, bandwidth=bandwidths, seed=st.integers(0, 2**32 - 1))
def test_noise_of_a_few_per_cent_moves_the_line_by_a_few_per_cent(latency: float, bandwidth: float, seed: int) -> None:
    # Sizes dominated by latency and sizes dominated by bandwidth, by a factor of 100 each.
    sizes = latency * bandwidth * np.array([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100])
    noise = np.random.default_rng(seed).uniform(-0.03, 0.03, len(sizes))
    line = fit_line(sizes, (latency + sizes / bandwidth) * (1 + noise))
    assert line.latency == pytest.approx(latency, rel=0.1)
    assert line.bandwidth == pytest.approx(bandwidth, rel=0.1)
    assert line.residual <= 0.032


@given(sizes=size_lists, seed=st.integers(0, 2**32 - 1))
def test_no_other_line_has_smaller_relative_errors(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = np.array(sizes, np.float64)
    t = (1e-5 + s / 1e10) * rng.uniform(0.8, 1.25, len(s))
    try:
        line = fit_line(s, t)
    except ValueError:
        return  # the noise inverted the slope between close sizes

    def residual(latency: float, per_byte: float) -> float:
        return float(np.sqrt(np.mean(((latency + s * per_byte - t) / t) ** 2)))

    assert line.residual == pytest.approx(residual(line.latency, 1 / line.bandwidth), rel=1e-6, abs=1e-9)
    for by_latency, by_slope in [(1.01, 1), (0.99, 1), (1, 1.01), (1, 0.99), (1.01, 0.99), (0.99, 1.01)]:
        other = residual(line.latency * by_latency, by_slope / line.bandwidth)
        assert line.residual <= other * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [([4096], [1e-5]), ([4096, 4096], [1e-5, 2e-5]), ([1, 2], [1e-5, 0]), ([1, 2], [float("nan"), 1]), ([1, 2], [1])],
)
def test_a_line_requires_two_sizes_with_times(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(ValueError, match="different sizes"):
        fit_line(sizes, seconds)


def test_times_that_shrink_have_no_bandwidth() -> None:
    with pytest.raises(ValueError, match="do not grow"):
        fit_line([1000, 2000, 3000], [3.0, 2.0, 1.0])
