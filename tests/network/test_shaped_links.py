"""What is measured between two hosts is what the link between them was shaped to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import environment, records
from tests.network.hosts import FRAME, HOSTS, PAYLOAD, Host, Link, link
from tests.network.netpipe import netpipe

pytestmark = pytest.mark.alone

MESSAGE = {1000: 1 << 24, 100: 1 << 21}
"""By Mbit/s: 0.14 s and 0.17 s each way, some 80 times the burst."""
PORT = 23_456
GLOO = ("all-reduce", "broadcast", "send-recv")
ALONE_SECONDS = 120
NAMESPACES = Path("/run/netns")


@dataclass(frozen=True)
class Measured:
    """What came out on a link."""

    link: Link
    size: int
    records: list[dict[str, Any]]


@contextmanager
def ranks(hosts: tuple[Host, Host], *arguments: str) -> Iterator[list[subprocess.Popen[str]]]:
    """`accelbench run` as one rank on each host, started by hand; ended with the block."""
    started = []
    try:
        for rank, host in enumerate(hosts):
            place = {
                "ACCELBENCH_RANK": str(rank),
                "ACCELBENCH_RANKS": "2",
                "ACCELBENCH_LOCAL_RANK": "0",
                "ACCELBENCH_SECRET": "known to both hosts",
                "ACCELBENCH_COORDINATOR": f"{hosts[0].address}:{PORT}",
            }
            started.append(
                subprocess.Popen(
                    host.command(sys.executable, "-m", "accelbench", "run", *arguments),
                    env=environment(**place),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                )
            )
        yield started
    finally:
        for process in started:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module", params=MESSAGE, ids=lambda rate: f"{rate} Mbit/s")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A link of that rate, and a run of pingpong and collectives between its hosts."""
    size, out = MESSAGE[request.param], tmp_path_factory.mktemp("network") / "run"
    # Without PyTorch all but the collectives are measured.
    params = ["--param", "pingpong.impl=tcp", "--param", "collectives.impl=gloo", "--param", f"op={','.join(GLOO)}"]
    with (
        link(request.param) as made,
        ranks(
            made.hosts,
            *("pingpong", "collectives", "--device", "cpu", "--no-ceilings", "--max-seconds", "1"),
            *(*params, "--param", f"bytes={size}", "--out", str(out)),
        ) as processes,
    ):
        said = [process.communicate(timeout=ALONE_SECONDS)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
        yield Measured(made, size, records(out))


@pytest.mark.needs(*HOSTS)
def test_a_message_there_and_back_takes_as_long_as_the_link_dictates(measured: Measured) -> None:
    (record,) = (record for record in measured.records if record["point"]["benchmark"] == "pingpong")
    assert [rank["node"] for rank in record["ranks"]] == [0, 1]
    _is_that_of_the_link(measured, measured.size / (median(record["timing"]["samples"]) / 2), record, both_ways=False)


@pytest.mark.needs(*HOSTS, "torch")
@pytest.mark.parametrize("op", GLOO)
def test_the_bus_bandwidth_of_gloo_is_that_of_the_link(measured: Measured, op: str) -> None:
    """Each link of two ranks carries the message once each way, or one way where it is a broadcast."""
    (record,) = (record for record in measured.records if record["point"]["params"].get("op") == op)
    bandwidth = record["metrics"]["bus_bandwidth"]["value"]
    _is_that_of_the_link(measured, bandwidth, record, both_ways=op != "broadcast")


def _is_that_of_the_link(measured: Measured, bandwidth: float, record: dict[str, Any], both_ways: bool) -> None:
    """Check the bandwidth of the median execution, which is late for as long as other processes have the CPUs.

    So it is at most what the link carries, and only that of the fastest execution is no less.
    """
    assert bandwidth <= measured.link.most(measured.size)
    samples = record["timing"]["samples"]
    fastest = bandwidth * median(samples) / min(samples)
    assert fastest >= measured.link.least(measured.size, both_ways)


@pytest.mark.needs(*HOSTS, "netpipe")
def test_netpipe_says_the_same(measured: Measured) -> None:
    (record,) = (record for record in measured.records if record["point"]["benchmark"] == "pingpong")
    server, client = measured.link.hosts
    theirs = netpipe(measured.size, server.address, server.command, client.command, first=1, repeats=1)
    assert measured.link.least(measured.size, both_ways=False) <= measured.size / theirs
    assert measured.size / theirs <= measured.link.most(measured.size)
    assert min(record["timing"]["samples"]) / 2 == pytest.approx(theirs, rel=0.1)


@pytest.mark.needs(*HOSTS)
def test_nothing_is_left_of_the_hosts() -> None:
    with link(1000) as made:
        assert all((NAMESPACES / host.name).exists() for host in made.hosts)
    assert not any((NAMESPACES / host.name).exists() for host in made.hosts)


@given(mbit=st.integers(10, 10_000), messages=st.lists(st.integers(1 << 22, 1 << 32), min_size=2, max_size=2))
def test_the_bounds_close_in_on_the_rate(mbit: int, messages: list[int]) -> None:
    found = Link((Host("a", ""), Host("b", "")), rate=mbit * 1e6 / 8)
    carried = found.rate * PAYLOAD / FRAME
    small, large = sorted(messages)
    if small > 4 * found.burst:
        assert found.least(small, both_ways=True) < found.least(small, both_ways=False) < carried < found.most(small)
        assert found.least(small, both_ways=False) <= found.least(large, both_ways=False)
        assert found.most(large) <= found.most(small)
    assert found.most(1 << 50) == pytest.approx(carried, rel=1e-3)
    assert found.least(1 << 50, both_ways=False) == pytest.approx(carried, rel=1e-3)
