"""Collectives and messages by NCCL, simulated in host memory with ranks as threads."""

from __future__ import annotations

import os
from queue import Queue
from threading import Barrier, Lock, local
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelbench.errors import UserError
from accelbench.execution.plan import Choice, make_plan
from accelbench.kernels.collectives import OPERATIONS, gpu_nccl
from accelbench.kernels.collectives.task import make_task
from accelbench.kernels.lib.ranks import nccl as between_gpus
from accelbench.kernels.lib.ranks.lockstep import Lockstep
from accelbench.kernels.pingpong import gpu_nccl as messages
from accelbench.kernels.pingpong import trips
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from tests.kernels.host_cupy import at, empty
from tests.kernels.in_ranks import verified

FLOAT32, UINT8, SUM = 7, 1, 0
"""CuPy's enumerators."""
DTYPES = {FLOAT32: "float32", UINT8: "uint8"}
SETTINGS = ("NCCL_ALGO", *{name: None for chosen in gpu_nccl.GPUDIRECT.values() for name in chosen})


class HostNccl:
    """Simulation of the used part of `cupy.cuda.nccl`, for ranks that are threads."""

    available = True
    NCCL_FLOAT32, NCCL_UINT8, NCCL_SUM = FLOAT32, UINT8, SUM

    def __init__(self, ranks: int) -> None:
        self.barrier, self.lock = Barrier(ranks), Lock()
        self.given: dict[int, Any] = {}
        self.queues: dict[tuple[int, int], Queue[Any]] = {}
        self.grouped = local()
        self.streams: set[int] = set()
        self.settings: list[dict[str, str]] = []
        """Settings of NCCL when each rank created the communicator, at which NCCL reads them."""

    def get_unique_id(self) -> bytes:
        return bytes(range(128))

    def groupStart(self) -> None:
        self.grouped.on = True

    def groupEnd(self) -> None:
        self.grouped.on = False

    def NcclCommunicator(self, ndev: int, commId: bytes, rank: int) -> Group:
        assert commId == bytes(range(128))
        self.settings.append({name: value for name, value in os.environ.items() if name in SETTINGS})
        return Group(self, ndev, rank)


class Group:
    """Simulated communicator with CuPy's signatures: addresses and counts of elements."""

    def __init__(self, nccl: HostNccl, ranks: int, rank: int) -> None:
        self.nccl, self.ranks, self.rank = nccl, ranks, rank

    def _all(self, address: int, count: int, kind: int, stream: int) -> list[Any]:
        """Return the inputs of all ranks."""
        assert kind == FLOAT32
        self.nccl.streams.add(stream)
        self.nccl.given[self.rank] = np.array(at(address, count, "float32"))
        self.nccl.barrier.wait()
        found = [self.nccl.given[rank] for rank in range(self.ranks)]
        assert len({len(each) for each in found}) == 1
        self.nccl.barrier.wait()
        return found

    def allReduce(self, give: int, take: int, count: int, kind: int, op: int, stream: int) -> None:
        assert op == SUM
        at(take, count, "float32")[:] = sum(self._all(give, count, kind, stream))

    def allGather(self, give: int, take: int, count: int, kind: int, stream: int) -> None:
        at(take, count * self.ranks, "float32")[:] = np.concatenate(self._all(give, count, kind, stream))

    def reduceScatter(self, give: int, take: int, count: int, kind: int, op: int, stream: int) -> None:
        assert op == SUM
        summed = sum(self._all(give, count * self.ranks, kind, stream))
        at(take, count, "float32")[:] = summed[self.rank * count : (self.rank + 1) * count]

    def broadcast(self, give: int, take: int, count: int, kind: int, root: int, stream: int) -> None:
        at(take, count, "float32")[:] = self._all(give, count, kind, stream)[root]

    def send(self, give: int, count: int, kind: int, peer: int, stream: int) -> None:
        assert kind == UINT8 or self.nccl.grouped.on  # otherwise all ranks would send and none receive: a deadlock
        self.nccl.streams.add(stream)
        self._queue(self.rank, peer).put(np.array(at(give, count, DTYPES[kind])))

    def recv(self, take: int, count: int, kind: int, peer: int, stream: int) -> None:
        assert kind == UINT8 or self.nccl.grouped.on
        at(take, count, DTYPES[kind])[:] = self._queue(peer, self.rank).get(timeout=10)

    def _queue(self, source: int, target: int) -> Queue[Any]:
        with self.nccl.lock:
            return self.nccl.queues.setdefault((source, target), Queue())


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that installs and returns the simulated NCCL of a number of ranks, each with its own GPU."""
    identities = iter(range(100))

    def use(ranks: int, gpus: int = 100) -> HostNccl:
        nccl = HostNccl(ranks)
        runtime = SimpleNamespace(
            getDeviceProperties=lambda device: {"uuid": bytes([next(identities) % gpus] * 16)},
            deviceSynchronize=lambda: None,
        )
        stream = SimpleNamespace(ptr=0xABC, synchronize=lambda: None)
        cuda = SimpleNamespace(runtime=runtime, nccl=nccl, Stream=lambda non_blocking: stream)
        modules = {"cupy": SimpleNamespace(empty=empty, cuda=cuda), "cupy.cuda.nccl": nccl}
        monkeypatch.setattr(between_gpus, "library", modules.__getitem__)
        monkeypatch.setenv("NCCL_SOCKET_IFNAME", "set by the user")
        return nccl

    return use


def point(op: str, size: int) -> Point:
    return Point("collectives", "gpu", {"op": op, "impl": "nccl", "bytes": size, "processes": 2}, seed=7)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_operation_is_correct_with_nccl(on_host: Any, op: str, ranks: int) -> None:
    nccl = on_host(ranks)

    def prepare(here: World) -> Task:
        steps = Lockstep(here)
        task = make_task(point(op, 1000), gpu_nccl.Nccl(steps, here), steps, here)
        assert here.rank or task.timer == "host"
        return task

    outcome = verified(ranks, prepare, times=2)
    assert outcome.passed, outcome
    assert nccl.streams <= {0xABC}  # never the default stream


@pytest.mark.parametrize(("size", "ranks"), [(1, 2), (100_000, 2), (1000, 3)])
def test_a_message_goes_from_gpu_to_gpu_and_comes_back(on_host: Any, size: int, ranks: int) -> None:
    nccl = on_host(ranks)

    def prepare(here: World) -> Task:
        steps = Lockstep(here)
        group = messages.Messages(steps, here)
        params = {"impl": "nccl", "bytes": size, "processes": ranks}
        return trips.make_task(Point("pingpong", "gpu", params, seed=7), group.trips, steps, here, group)

    outcome = verified(ranks, prepare, times=2)
    assert outcome.passed, outcome
    assert nccl.streams == {0xABC}


def test_a_message_that_is_not_sent_fails(on_host: Any) -> None:
    on_host(2)

    def prepare(here: World) -> Task:
        steps = Lockstep(here)
        group = messages.Messages(steps, here)
        point = Point("pingpong", "gpu", {"impl": "nccl", "bytes": 1000, "processes": 2}, seed=7)
        return trips.make_task(point, lambda payload, returned, loops: None, steps, here, group)

    assert not verified(2, prepare).passed


@pytest.mark.parametrize(
    ("algorithm", "gpudirect", "expected"),
    [
        ("library", "library", {}),
        ("ring", "library", {"NCCL_ALGO": "ring"}),
        ("tree", "off", {"NCCL_ALGO": "tree", **gpu_nccl.GPUDIRECT["off"]}),
        ("library", "on", gpu_nccl.GPUDIRECT["on"]),
    ],
)
def test_algorithm_and_gpudirect_are_set_before_nccl_starts(
    on_host: Any, monkeypatch: pytest.MonkeyPatch, algorithm: str, gpudirect: str, expected: dict[str, str]
) -> None:
    for name in SETTINGS:
        monkeypatch.setenv(name, "")  # so that the values set by the ranks are removed after this test
        monkeypatch.delenv(name)
    nccl = on_host(2)

    def prepare(here: World) -> Task:
        steps = Lockstep(here)
        group = gpu_nccl.Nccl(steps, here, algorithm, gpudirect)
        task = make_task(point("all-reduce", 1000), group, steps, here)
        assert (task.work.all_reduced is not None) == (not expected)  # training runs use NCCL's own choice
        return task

    assert verified(2, prepare).passed
    assert nccl.settings == [expected] * 2


def test_gpudirect_is_permitted_or_forbidden_within_a_node_and_between_nodes() -> None:
    levels = {value: {chosen.get(name) for name in ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL")}
              for value, chosen in gpu_nccl.GPUDIRECT.items()}  # fmt: skip
    assert levels == {"library": {None}, "on": {"SYS"}, "off": {"LOC"}}


def test_an_algorithm_that_nccl_lacks_is_skipped() -> None:
    lacking = []
    for op in OPERATIONS:
        for algorithm in ("library", "ring", "tree"):
            try:
                gpu_nccl.require_algorithm(op, algorithm)
            except Skip:
                lacking.append((op, algorithm))
    others = ("all-gather", "reduce-scatter", "broadcast")
    pairwise = [(op, algorithm) for op in ("send-recv", "all-to-all") for algorithm in ("ring", "tree")]
    assert lacking == [*((op, "tree") for op in others), *pairwise]


def test_an_algorithm_is_an_axis_of_nccl_only() -> None:
    chosen = [Choice("collectives", "op", ("all-reduce",)), Choice("collectives", "algorithm", ("library", "tree"))]
    planned = make_plan(["collectives"], None, "gpu", chosen, None)
    assert {each.params.get("algorithm") for each in planned} == {None, "tree"}
    for axis, value in (("algorithm", "tree"), ("gpudirect", "off")):
        with pytest.raises(UserError, match=f"{axis}={value} only with impl=nccl"):
            make_plan(["collectives"], None, "cpu", [Choice("collectives", axis, (value,))], None)


def test_ranks_that_share_a_gpu_are_skipped(on_host: Any) -> None:
    on_host(2, gpus=1)

    def prepare(here: World) -> Task:
        steps = Lockstep(here)
        return make_task(point("all-reduce", 1000), gpu_nccl.Nccl(steps, here), steps, here)

    with pytest.raises(Skip, match="ranks 0 and 1"):
        verified(2, prepare)


def test_the_interface_that_the_user_chose_stays(on_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    on_host(2)
    verified(2, lambda here: make_task(point("broadcast", 8), gpu_nccl.Nccl(s := Lockstep(here), here), s, here))
    assert os.environ["NCCL_SOCKET_IFNAME"] == "set by the user"


def test_a_missing_nccl_is_skipped_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_gpus, "library", lambda name: SimpleNamespace(available=False))
    with pytest.raises(Skip, match="nvidia-nccl-cu12"):
        gpu_nccl.prepare(point("all-reduce", 8))
