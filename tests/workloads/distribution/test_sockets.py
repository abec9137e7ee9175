"""TensorFlow's servers are started only in isolated or trusted networks; ranks connect directly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.ranks.world import World, join
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution import sockets
from accelbench.workloads.distribution.parameter_server import ParameterServer
from tests.conftest import environment
from tests.requirements import not_tested

WORLD = World(size=3, addresses=["127.0.0.1:1"] * 3, secret="shared by these ranks")
POINT = Point("learn", "cpu", {"strategy": "parameter-server", "processes": 3}, "tensorflow", seed=1)

ALONE = """
from accelbench.execution.own_network import isolate_network
from accelbench.workloads.distribution.sockets import require_trusted_network
if isolate_network():
    require_trusted_network()
    print("isolated")
"""


@pytest.fixture(autouse=True)
def back() -> Iterator[None]:
    yield
    join(World())


@pytest.fixture
def among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a host with addresses that other hosts reach."""
    monkeypatch.setattr(sockets, "_only_loopback", lambda: False)


@pytest.mark.needs("tensorflow")
@pytest.mark.usefixtures("among_others")
def test_a_reachable_host_requires_trusted_network() -> None:
    join(WORLD)
    with pytest.raises(Skip, match="--trusted-network"):
        ParameterServer(POINT).start()
    join(WORLD.model_copy(update={"trusted": True}))
    sockets.require_trusted_network()


@pytest.mark.needs("namespaces")
def test_an_isolated_network_needs_no_trust() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ALONE], env=environment(), capture_output=True, encoding="utf-8", check=True
    )
    if not found.stdout:
        not_tested("namespaces", "network namespaces are not permitted")
    assert found.stdout == "isolated\n"


@pytest.fixture
def of_two_here(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the environment of a rank that has a peer on another host."""
    found = {"http_proxy": "http://proxy:3128", "no_proxy": "localhost"}
    monkeypatch.setattr(os, "environ", found)
    join(World(rank=0, size=2, addresses=["127.0.0.1:1000", "10.1.2.3:1000"]))
    return found


def test_ranks_connect_by_their_own_interface_without_proxy(of_two_here: dict[str, str]) -> None:
    sockets.connect_directly()
    assert of_two_here["GLOO_SOCKET_IFNAME"] == "lo"
    assert of_two_here["NCCL_SOCKET_IFNAME"] == "=lo"
    assert of_two_here["no_grpc_proxy"] == "10.1.2.3,127.0.0.1,localhost"


def test_an_interface_set_by_the_user_is_kept(of_two_here: dict[str, str]) -> None:
    of_two_here["GLOO_SOCKET_IFNAME"] = "ib0"
    del of_two_here["http_proxy"]
    sockets.connect_directly()
    assert of_two_here["GLOO_SOCKET_IFNAME"] == "ib0"
    assert "no_grpc_proxy" not in of_two_here
