"""Copies between all pairs of GPUs, and between memory nodes and GPUs, on a simulated node; their matrices."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelbench.errors import UserError
from accelbench.execution.plan import Choice, discover, make_plan
from accelbench.kernels.lib.cpu import topology
from accelbench.kernels.transfer import copies, gpu_numa, gpu_numbers, gpu_to_gpu, on_gpu
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices import gpu_backend
from accelbench.profiling.devices.nvidia import Nvidia
from accelbench.profiling.measure import point as point_module
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from tests.fixtures.machines import build, memory_nodes
from tests.fixtures.report_runs import environment
from tests.kernels.gpu_node import GpuNode

KIB = 8
Install = Callable[..., GpuNode]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Function that installs a simulated node."""

    def build_node(**changes: Any) -> GpuNode:
        node = GpuNode(**changes)
        for module in (gpu_to_gpu, gpu_numa, on_gpu, copies):
            monkeypatch.setattr(module, "cupy_library", lambda: node.cupy)
        monkeypatch.setattr(copies, "synchronize", lambda: None)
        monkeypatch.setattr(point_module, "soak", lambda run: run())  # the simulated clock needs no warm-up
        gpu_to_gpu.enable_peer_access.cache_clear()
        return node

    return build_node


def pair(source: int, target: int) -> Point:
    return Point("transfer-gpus", "gpu", {"from": source, "to": target, "kib": KIB}, seed=3)


def from_node(node: int, gpu: int, direction: str = "to-device") -> Point:
    return Point("transfer-numa", "gpu", {"direction": direction, "node": node, "gpu": gpu, "kib": KIB}, seed=3)


def measured(point: Point) -> Record:
    """Return the record of a point from a real measurement on the simulated node."""
    return measure(discover()[point.benchmark], point, environment(), max_seconds=0.05)


# --- between GPUs ---


def test_a_copy_is_timed_by_the_events_of_its_source_and_every_byte_compared(install: Install) -> None:
    node = install()
    record = measured(pair(1, 0))
    assert record.status == "measured", record.reason
    assert record.rate() == pytest.approx(node.peer, rel=1e-6)
    assert record.verification
    assert record.verification.passed
    assert record.metrics.keys() == {"peer access"}
    assert {stream.device for stream in node.streams.values()} == {1}
    assert node.enabled == {(0, 1), (1, 0)}
    assert record.layout.devices == 2


def test_gpus_without_peer_access_copy_through_the_host(install: Install) -> None:
    node = install(gpus=3, apart=[frozenset({0, 2})])
    record = measured(pair(0, 2))
    assert record.rate() == pytest.approx(node.host, rel=1e-6)
    assert record.metrics.keys() == {"through the host"}
    assert not node.enabled
    assert measured(pair(0, 1)).metrics.keys() == {"peer access"}


def test_peer_access_is_enabled_once_for_several_points(install: Install) -> None:
    install()
    for point in (pair(0, 1), pair(0, 1), pair(1, 0)):
        assert gpu_to_gpu.prepare(point).verify().passed


@pytest.mark.parametrize("lose", [1, -1, KIB * 1024])
def test_a_wrong_copy_fails_the_point(install: Install, lose: int) -> None:
    node = install()
    task = gpu_to_gpu.prepare(pair(0, 1))
    assert task.verify().passed
    node.lose = lose  # −1 writes a byte after the copied ones
    assert not task.verify().passed


@pytest.mark.parametrize(
    ("changes", "point", "reason"),
    [
        ({"gpus": 1}, pair(0, 1), "requires two GPUs"),
        ({"gpus": 2}, pair(1, 1), "both ends"),
        ({"gpus": 2}, pair(0, 2), "no GPU 2: GPUs 0 to 1"),
        ({"gpus": 2, "free": 12 * 1024}, pair(0, 1), "device memory"),
    ],
)
def test_a_pair_that_cannot_be_measured_is_skipped_with_the_reason(
    install: Install, changes: dict[str, Any], point: Point, reason: str
) -> None:
    node = install(**changes)
    with pytest.raises(Skip, match=reason):
        gpu_to_gpu.prepare(point)
    assert not node.arrays


def test_the_sensors_are_those_of_the_gpus_of_the_pair(install: Install) -> None:
    install(gpus=4)
    assert gpu_to_gpu.prepare(pair(3, 1)).cards == (3, 1)


# --- between memory nodes and GPUs ---


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host with two memory nodes and GPUs 0 and 1, of which GPU 1 is attached to node 1."""
    root = build(tmp_path, memory_nodes(["0-63", "64-127"], [256, 256], ["10 21", "21 10"]))
    addresses = ["0000:41:00.0", "0000:C1:00.0"]
    for address, node in zip(addresses, (-1, 1), strict=True):
        place = root / "sys/bus/pci/devices" / address.lower()
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n")
    monkeypatch.setattr(Nvidia, "cards", lambda self, count: addresses[:count])
    monkeypatch.setattr(topology, "ROOT", root)
    read_nodes, attached = topology.read_nodes, gpu_numa.node_of_gpu
    monkeypatch.setattr(topology, "read_nodes", lambda _root: read_nodes(root))
    monkeypatch.setattr(gpu_numa, "node_of_gpu", lambda number: attached(number, root))
    monkeypatch.setattr(gpu_numa, "fill_on_node", lambda array, value, route: array.fill(value))
    monkeypatch.setattr(gpu_numa, "share_on_node", lambda array, node: 0.75)
    return root


@pytest.mark.parametrize("direction", ["to-device", "from-device"])
@pytest.mark.usefixtures("two_nodes")
def test_memory_of_a_node_is_copied_and_every_byte_compared(install: Install, direction: str) -> None:
    node = install()
    record = measured(from_node(1, 1, direction))
    assert record.status == "measured", record.reason
    assert record.rate() == pytest.approx(node.host, rel=1e-6)
    assert {name: metric.value for name, metric in record.metrics.items()} == {"on the node": 75, "local node": 1}
    assert "local node" not in measured(from_node(0, 1, direction)).metrics
    assert "local node" not in measured(from_node(0, 0, direction)).metrics, "the node of GPU 0 is unknown"


@pytest.mark.parametrize("direction", ["to-device", "from-device"])
@pytest.mark.usefixtures("two_nodes")
def test_a_wrong_copy_of_a_node_fails_the_point(install: Install, direction: str) -> None:
    node = install()
    task = gpu_numa.prepare(from_node(0, 0, direction))
    assert task.verify().passed
    node.lose = 1
    assert not task.verify().passed
    assert task.cards == (0,)


@pytest.mark.usefixtures("two_nodes")
def test_memory_is_unlocked_before_it_is_freed(install: Install) -> None:
    node = install()
    task: Task | None = gpu_numa.prepare(from_node(0, 0))
    assert task
    assert len(node.locked) == 1
    task = None
    gc.collect()
    assert not node.locked


@pytest.mark.parametrize(("node", "gpu", "reason"), [(2, 0, "no memory node 2"), (0, 2, "no GPU 2")])
@pytest.mark.usefixtures("two_nodes")
def test_a_node_or_gpu_that_does_not_exist_is_skipped(install: Install, node: int, gpu: int, reason: str) -> None:
    install()
    with pytest.raises(Skip, match=reason):
        gpu_numa.prepare(from_node(node, gpu))


# --- plan ---


def test_all_pairs_of_the_visible_gpus_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpu_backend().visible_devices, "0,3,5")
    plan = make_plan(["transfer-gpus"], None, "gpu", [], None)
    assert {(point["from"], point["to"]) for point in plan} == {(a, b) for a in range(3) for b in range(3) if a != b}
    chosen = make_plan(["transfer-gpus"], None, "gpu", [Choice.parse("from=6"), Choice.parse("to=7")], None)
    assert [(point["from"], point["to"]) for point in chosen] == [(6, 7)]
    with pytest.raises(UserError, match="from and to differ"):
        make_plan(["transfer-gpus"], None, "gpu", [Choice.parse("from=1"), Choice.parse("to=1")], None)


@pytest.mark.parametrize(
    ("visible", "nodes", "expected"),
    [(None, 4, 4), (None, 0, 1), ("0,2", 4, 2), ("", 4, 1), ("GPU-a,MIG-b,MIG-c", 1, 3), ("1,-1", 4, 1)],
)
def test_gpus_are_counted_without_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, visible: str | None, nodes: int, expected: int
) -> None:
    (tmp_path / "dev").mkdir()
    for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(nodes))]:
        (tmp_path / "dev" / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    counted = Nvidia.visible_count
    monkeypatch.setattr(Nvidia, "visible_count", lambda self: counted(self, tmp_path))
    assert gpu_numbers() == tuple(range(expected))
    assert gpu_numbers(2) == tuple(range(max(2, expected)))
