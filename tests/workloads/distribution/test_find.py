"""Registry of strategies, their automatic selection, and their layouts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelbench.profiling.ranks.world import World, join
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point, Scalar
from accelbench.workloads import distribution
from accelbench.workloads.distribution import find
from accelbench.workloads.distribution.find import STRATEGIES, strategy_of
from tests.fixtures.warm import Forked

GOSSIP = """
from accelbench.workloads.distribution.strategy import Strategy

class Gossip(Strategy):
    backends = ("jax", "torch")
    only = {"devices": (1,)}
"""


@pytest.fixture
def world_of_four() -> Iterator[None]:
    join(World(rank=1, size=4))
    yield
    join(World())


def test_modules_of_the_package_are_strategies_named_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gossip_ring.py").write_text(GOSSIP, encoding="utf-8")
    monkeypatch.setattr(distribution, "__path__", [*distribution.__path__, str(tmp_path)])
    found = find._strategies()
    assert found.keys() - STRATEGIES.keys() == {"gossip-ring"}
    assert found["gossip-ring"].backends == ("jax", "torch")
    monkeypatch.delitem(sys.modules, "accelbench.workloads.distribution.gossip_ring")


@pytest.mark.parametrize(
    ("backend", "device", "params", "name"),
    [
        ("tensorflow", "cpu", {}, "none"),
        ("tensorflow", "gpu", {"devices": 2}, "mirrored"),
        ("tensorflow", "cpu", {"processes": 2}, "multiworker"),
        ("tensorflow", "tpu", {}, "tpu"),
        ("jax", "tpu", {}, "none"),
        ("jax", "cpu", {"processes": 2, "devices": 2}, "data-parallel"),
        ("torch", "gpu", {"processes": 2}, "ddp"),
    ],
)
def test_auto_selects_the_frameworks_own_strategy(
    backend: str, device: str, params: dict[str, Scalar], name: str
) -> None:
    assert strategy_of(Point("some", device, {"batch": 8} | params, backend)).name == name  # type: ignore[arg-type]


ON_A_TPU = """
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

class Cores(tf.distribute.MirroredStrategy):
    def __init__(self, resolver):
        assert resolver == "the TPU of this machine"
        super().__init__([device.name for device in tf.config.list_logical_devices("CPU")])

tf.distribute.cluster_resolver.TPUClusterResolver = lambda tpu: {"local": "the TPU of this machine"}[tpu]
tf.config.experimental_connect_to_cluster = tf.tpu.experimental.initialize_tpu_system = lambda resolver: None
tf.distribute.TPUStrategy = Cores

from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.profiling.records.point import Point
from accelbench.workloads.bilstm_har import bilstm_har
from accelbench.workloads.training import keras_model

keras_model._default_device = lambda backend: "tpu"
planned = make_plan((), load_suite("kimm2021-strategies"), "tpu", (), None)[0]
small = {"units": 2, "layers": 1, "epochs": 1, "windows": 4 * planned["batch"]}
task = bilstm_har(Point(planned.benchmark, "tpu", {**planned.params, **small}, planned.backend))
passed = task.verify(task.fit([]), task.evaluate()).passed
print(task.layout.strategy, task.layout.replicas, task.layout.batch, passed)
"""
"""A CPU split into two devices, in place of TPU cores: TensorFlow's TPUStrategy requires a TPU."""


@pytest.mark.slow
def test_the_papers_strategy_trains_on_a_simulated_tpu(tmp_path: Path) -> None:
    done = Forked("tensorflow", ON_A_TPU, ACCELBENCH_DATA=str(tmp_path), TPU_NAME="")
    printed, errors = done.communicate()
    assert printed.splitlines() == ["tpu 2 64 True"], errors[-3000:]


ON_A_TPU_BY_JAX = """
from accelbench.execution.plan import make_plan
from accelbench.execution.suite import load_suite
from accelbench.profiling.devices.cpu import split_for_xla
from accelbench.profiling.records.point import Point
from accelbench.workloads.bilstm_har import bilstm_har
from accelbench.workloads.training import keras_model

split_for_xla(8)
keras_model._default_device = lambda backend: "tpu"
planned = make_plan((), load_suite("kimm2021"), "tpu", (), None)[0]
small = {"units": 2, "layers": 1, "epochs": 1, "windows": 2 * planned["batch"], "devices": 8}
task = bilstm_har(Point(planned.benchmark, "tpu", {**planned.params, **small}, planned.backend))
passed = task.verify(task.fit([]), task.evaluate()).passed
print(planned.backend, task.layout.strategy, task.layout.replicas, task.layout.batch, passed)
"""
"""Eight devices of a CPU in place of the cores of a TPU; TensorFlow is installed, but not the default on a TPU."""


@pytest.mark.slow
def test_keras_on_jax_trains_on_a_simulated_tpu(tmp_path: Path) -> None:
    printed, errors = Forked("jax", ON_A_TPU_BY_JAX, ACCELBENCH_DATA=str(tmp_path)).communicate()
    assert printed.splitlines() == ["jax data-parallel 8 64 True"], errors[-3000:]


WITHOUT_A_TPU = """
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.find import strategy_of
try:
    strategy_of(Point("learn", "tpu", {"batch": 8}, "tensorflow")).start()
except Skip as reason:
    print(reason)
"""


@pytest.mark.slow
def test_a_tensorflow_without_tpus_is_skipped_with_what_tpu_strategy_needs() -> None:
    printed, errors = Forked("tensorflow", WITHOUT_A_TPU, TPU_NAME="").communicate()
    assert all(word in printed for word in ("tensorflow-tpu", "accelbench[tpu-tensorflow]", "--backend jax")), errors


@pytest.mark.usefixtures("world_of_four")
@pytest.mark.parametrize(
    ("backend", "params", "layout"),
    [
        ("torch", {}, Layout(4, 1, 4, 1, "strong", "ddp", 8)),
        ("torch", {"scaling": "weak"}, Layout(4, 1, 4, 1, "weak", "ddp", 32)),
        ("jax", {"devices": 2}, Layout(4, 2, 8, 1, "strong", "data-parallel", 8)),
        # Rank 0 coordinates and rank 1 stores the weights; each other rank trains on its own batches.
        ("tensorflow", {"strategy": "parameter-server"}, Layout(4, 1, 2, 1, "strong", "parameter-server", 8)),
    ],
)
def test_layout_of_each_strategy(backend: str, params: dict[str, Scalar], layout: Layout) -> None:
    found = strategy_of(Point("some", "cpu", {"batch": 8, "processes": 4} | params, backend)).layout
    assert found == layout
