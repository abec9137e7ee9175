"""NUMA nodes: topology from the kernel's files, work on the CPUs of one node with memory of another, and skips."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from accelbench.kernels.lib.cpu import placing, topology
from accelbench.kernels.lib.cpu.huge_pages import huge_empty
from accelbench.kernels.lib.cpu.pinned import PinnedThreads
from accelbench.kernels.lib.cpu.topology import Node, Route, read_nodes, route
from accelbench.kernels.numa import cpu_bandwidth, cpu_latency, numa_bandwidth, numa_latency
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.environment.cpu import one_thread_per_core
from accelbench.profiling.records.point import Point
from tests.fixtures.machines import build, memory_nodes
from tests.fixtures.machines import topology as cpus_of

TWO_SOCKETS = cpus_of(packages=2, cores_each=32, threads=2)
TWO_NODES = memory_nodes(["0-31,64-95", "32-63,96-127"], [256, 256], ["10 21", "21 10"])
HERE = min(os.sched_getaffinity(0))


def allow(monkeypatch: pytest.MonkeyPatch, cpus: range) -> None:
    monkeypatch.setattr(topology, "collect_affinity", lambda: list(cpus))


def test_nodes_are_read_with_their_cpus_memory_and_distances(tmp_path: Path) -> None:
    nodes = read_nodes(build(tmp_path, TWO_SOCKETS, TWO_NODES))
    assert nodes == {
        0: Node((*range(32), *range(64, 96)), 256 << 30, (10, 21)),
        1: Node((*range(32, 64), *range(96, 128)), 256 << 30, (21, 10)),
    }
    assert read_nodes(tmp_path / "nothing") == {}


def test_one_thread_a_core_works_on_the_node_and_the_memory_is_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(tmp_path, TWO_SOCKETS, TWO_NODES)
    allow(monkeypatch, range(128))
    assert route(0, 1, root) == Route(tuple(range(32)), 1, (*range(32, 64), *range(96, 128)), 21)
    assert route(1, 1, root).cpus == tuple(range(32, 64))
    allow(monkeypatch, range(64, 128))  # only the second thread of every core
    assert route(1, 0, root) == Route(tuple(range(96, 128)), 0, tuple(range(64, 96)), 21)


def test_a_node_that_cannot_be_measured_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = memory_nodes(["0-31,64-95", "", "32-63,96-127"], [256, 64, 0], ["10 20 21", "20 10 30", "21 30 10"])
    root = build(tmp_path, TWO_SOCKETS, nodes)
    allow(monkeypatch, range(32))
    for start, end, reason in (
        (0, 3, "node 3: .* 0-2"),
        (1, 0, "node 1 has no CPU"),
        (2, 0, "node 2 has no CPU"),
        (0, 2, "node 2 has no memory"),
    ):
        with pytest.raises(Skip, match=reason):
            route(start, end, root)
    assert route(0, 1, root).cpus_there == ()  # memory without CPUs can be read, if the kernel places it there
    with pytest.raises(Skip, match="lists no memory nodes"):
        route(0, 0, tmp_path / "nothing")


def test_192_cores_are_as_many_threads(tmp_path: Path) -> None:
    root = build(tmp_path, cpus_of(packages=2, cores_each=96, threads=2))
    assert one_thread_per_core(range(384), root) == list(range(192))
    assert one_thread_per_core([5, 197, 198], root) == [5, 198]  # 197 is the second thread of core 5


def test_pinned_threads_run_on_their_cpus_and_their_errors_are_raised() -> None:
    cpus, before = sorted(os.sched_getaffinity(0)), set(threading.enumerate())
    found: dict[int, set[int]] = {}
    with PinnedThreads(cpus) as threads:
        threads.run(lambda thread: found.update({thread: os.sched_getaffinity(0)}))
        with pytest.raises(ZeroDivisionError):
            threads.run(lambda thread: 1 // 0)
    assert found == {thread: {cpu} for thread, cpu in enumerate(cpus)}
    assert sorted(os.sched_getaffinity(0)) == cpus
    assert set(threading.enumerate()) <= before


@pytest.mark.needs("memory-nodes")
@pytest.mark.parametrize("bound", [True, False], ids=["by mbind", "by first touch"])
def test_memory_is_on_the_requested_node(bound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    node = next(number for number, node in read_nodes().items() if HERE in node.cpus)
    if not bound:
        monkeypatch.setattr(placing, "MBIND", {})
    array = huge_empty(1 << 20, np.float64)
    placing.fill_on_node(array, 3.0, route(node, node))
    assert (array == 3).all()
    assert placing.share_on_node(array, node) in (None, 1.0)


def test_memory_that_can_be_neither_bound_nor_touched_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "MBIND", {})
    with pytest.raises(Skip, match="node 7: mbind"):
        placing.fill_on_node(huge_empty(8, np.float64), 1.0, Route((HERE,), 7, (), None))


def test_the_kernel_rejects_a_missing_node() -> None:
    assert not placing.bind(huge_empty(8, np.float64), 1023)


def test_the_share_on_a_node_is_that_of_the_arrays_own_mapping(tmp_path: Path) -> None:
    array = np.zeros(8)
    address, maps = array.ctypes.data, tmp_path / "numa_maps"
    maps.write_text(
        f"1000 default anon=5 dirty=5 N0=5 kernelpagesize_kB=4\n"
        f"{address + 4096:x} default anon=9 N0=9 kernelpagesize_kB=4\n"
        f"{address - 64:x} bind:1 anon=4 dirty=4 N0=1 N1=3 kernelpagesize_kB=4\n"
    )
    assert placing.share_on_node(array, 1, maps) == 0.75
    assert placing.share_on_node(array, 2, maps) == 0
    assert placing.share_on_node(array, 0, tmp_path / "none") is None


@pytest.mark.needs("memory-nodes")
def test_both_benchmarks_work_within_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_bandwidth, "elements_per_array", lambda itemsize, threads: 4096 * threads)
    monkeypatch.setattr(cpu_latency, "cache_bytes", lambda level: 1 << 20)
    monkeypatch.setattr(cpu_latency, "SMALLEST", 1 << 20)
    node = next(number for number, node in read_nodes().items() if HERE in node.cpus)
    for make, name in ((numa_bandwidth, "numa-bandwidth"), (numa_latency, "numa-latency")):
        task = make(Point(name, "cpu", {"from": node, "to": node}, seed=5))
        task.run()
        assert task.verify().passed
        assert task.metrics is not None
        metrics = task.metrics(1e-3)
        assert metrics["distance"].value == 10
        assert metrics.get("on the node") is None or metrics["on the node"].value == 100


def test_a_part_that_was_not_read_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_bandwidth, "elements_per_array", lambda itemsize, threads: 4096 * threads)
    monkeypatch.setattr(cpu_bandwidth, "route", lambda start, end: Route((HERE,), 0, (HERE,), 10))
    honest = cpu_bandwidth.sum_vectors
    monkeypatch.setattr(cpu_bandwidth, "sum_vectors", lambda part, begin, end, passes: honest(part, 512, end, passes))
    assert not numa_bandwidth(Point("numa-bandwidth", "cpu", {"from": 0, "to": 0}, seed=5)).verify().passed
