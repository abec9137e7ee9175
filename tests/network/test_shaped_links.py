"""Network benchmarks on links of known rate."""

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

MESSAGE = {1000: 1 << 23, 100: 1 << 20}
"""Message size in bytes by Mbit/s: 0.07 s and 0.08 s in each direction, about 40 times the burst."""
PORT = 23_456
GLOO = ("all-reduce", "broadcast", "send-recv")
TIMEOUT_SECONDS = 120
NAMESPACES = Path("/run/netns")


@dataclass(frozen=True)
class Measured:
    """Records measured on a link."""

    link: Link
    size: int
    records: list[dict[str, Any]]


@contextmanager
def ranks(hosts: tuple[Host, Host], *arguments: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Run `accelbench run` with one rank on each host; terminate the ranks at the end."""
    started = []
    try:
        for rank, host in enumerate(hosts):
            place = {
                "ACCELBENCH_RANK": str(rank),
                "ACCELBENCH_RANKS": "2",
                "ACCELBENCH_LOCAL_RANK": "0",
                "ACCELBENCH_SECRET": "secret of both hosts",
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
    """Run pingpong and collectives between two hosts with a link of the given rate."""
    size, out = MESSAGE[request.param], tmp_path_factory.mktemp("network") / "run"
    # Without PyTorch, only pingpong is measured.
    params = ["--param", "pingpong.impl=tcp", "--param", "collectives.impl=gloo", "--param", f"op={','.join(GLOO)}"]
    with (
        link(request.param) as made,
        ranks(
            made.hosts,
            *("pingpong", "collectives", "--device", "cpu", "--no-ceilings", "--max-seconds", "0.3"),
            *("--rounds", "1", "--patience", "0"),
            *(*params, "--param", f"bytes={size}", "--out", str(out)),
        ) as processes,
    ):
        outputs = [process.communicate(timeout=TIMEOUT_SECONDS)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)
        yield Measured(made, size, records(out))


@pytest.mark.slow
@pytest.mark.needs(*HOSTS)
def test_pingpong_measures_the_rate_of_the_link(measured: Measured) -> None:
    (record,) = (record for record in measured.records if record["point"]["benchmark"] == "pingpong")
    assert [rank["node"] for rank in record["ranks"]] == [0, 1]
    assert_link_rate(measured, measured.size / (median(record["timing"]["samples"]) / 2), record, both_ways=False)


@pytest.mark.slow
@pytest.mark.needs(*HOSTS, "torch")
@pytest.mark.parametrize("op", GLOO)
def test_collectives_measure_the_rate_of_the_link(measured: Measured, op: str) -> None:
    """With two ranks, the link carries the message once in each direction, or in one direction for a broadcast."""
    (record,) = (record for record in measured.records if record["point"]["params"].get("op") == op)
    bandwidth = record["metrics"]["bus_bandwidth"]["value"]
    assert_link_rate(measured, bandwidth, record, both_ways=op != "broadcast")


def assert_link_rate(measured: Measured, bandwidth: float, record: dict[str, Any], both_ways: bool) -> None:
    """Check the median bandwidth against the upper bound, and the maximum bandwidth against the lower bound.

    The median may be below the lower bound, because other processes use the CPUs.
    """
    assert bandwidth <= measured.link.most(measured.size)
    samples = record["timing"]["samples"]
    fastest = bandwidth * median(samples) / min(samples)
    assert fastest >= measured.link.least(measured.size, both_ways)


@pytest.mark.slow
@pytest.mark.needs(*HOSTS, "netpipe")
def test_pingpong_agrees_with_netpipe(measured: Measured) -> None:
    (record,) = (record for record in measured.records if record["point"]["benchmark"] == "pingpong")
    server, client = measured.link.hosts
    reference = netpipe(measured.size, server.address, server.command, client.command, first=1, repeats=1)
    assert measured.link.least(measured.size, both_ways=False) <= measured.size / reference
    assert measured.size / reference <= measured.link.most(measured.size)
    assert min(record["timing"]["samples"]) / 2 == pytest.approx(reference, rel=0.1)


@pytest.mark.needs(*HOSTS)
def test_hosts_are_removed_at_the_end() -> None:
    with link(1000) as made:
        assert all((NAMESPACES / host.name).exists() for host in made.hosts)
    assert not any((NAMESPACES / host.name).exists() for host in made.hosts)


@given(mbit=st.integers(10, 10_000), messages=st.lists(st.integers(1 << 22, 1 << 32), min_size=2, max_size=2))
def test_the_bounds_converge_to_the_rate(mbit: int, messages: list[int]) -> None:
    found = Link((Host("a", ""), Host("b", "")), rate=mbit * 1e6 / 8)
    carried = found.rate * PAYLOAD / FRAME
    small, large = sorted(messages)
    if small > 4 * found.burst:
        assert found.least(small, both_ways=True) < found.least(small, both_ways=False) < carried < found.most(small)
        assert found.least(small, both_ways=False) <= found.least(large, both_ways=False)
        assert found.most(large) <= found.most(small)
    assert found.most(1 << 50) == pytest.approx(carried, rel=1e-3)
    assert found.least(1 << 50, both_ways=False) == pytest.approx(carried, rel=1e-3)
