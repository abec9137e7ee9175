"""Messages between two ranks, compared with Debian's NPtcp and with a loop in plain PyTorch.

Both programs use the same cores, and are measured alternately for half a second, so that the ratios are of consecutive
measurements. As a program, this module is one rank, which measures once for each line it reads.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec

import pytest
from rich.console import Console

from accelbench.execution.plan import discover
from accelbench.kernels.pingpong.cpu_tcp import connection
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.packages import install_framework, not_installed
from accelbench.profiling.ranks.channel import Address, free_port
from accelbench.profiling.ranks.world import World, join, world
from accelbench.profiling.records.point import Point
from accelbench.profiling.timing.host import sample_seconds
from tests.bench_self.bounds import Bound
from tests.network.hosts import Host, link
from tests.network.netpipe import Command, netpipe

ROUNDS = 15
WITHIN = 0.1
PINGPONG_BYTES = (1, 1024, 65_536, 8_388_608)
GLOO_BYTES = (8, 65_536, 1_048_576, 16_777_216)
TRIALS = 7
"""Number of trials, as in NPtcp; the result is the best mean of a trial."""
TRIAL_SECONDS = 0.05
"""Duration of a trial in seconds, the same for all programs, since the best of shorter trials is better."""
WARM_UP = 100
"""Number of warm-up trips, as in NPtcp."""
LOCALHOST, PORT = "127.0.0.1", 23_457


class Place:
    """Placement of two ranks: on this host, or on a pair of hosts; each rank on a core of its own."""

    def __init__(self, name: str, hosts: tuple[Host, Host] | None = None) -> None:
        self.name, self._hosts = name, hosts
        cores = sorted(os.sched_getaffinity(0))
        self._cores = cores[0], cores[-1]
        self.host = hosts[0].address if hosts else LOCALHOST

    def addresses(self) -> list[str]:
        """Return the address of each rank, with a free port."""
        if self._hosts:
            return [f"{host.address}:{PORT}" for host in self._hosts]
        return [f"{LOCALHOST}:{free_port(LOCALHOST)}" for _ in range(2)]

    def command_at(self, rank: int) -> Command:
        """Return a function that extends a command so that it runs on the rank's host and core."""

        def command(*words: str) -> list[str]:
            pinned = ["taskset", "--cpu-list", str(self._cores[rank]), *words]
            return self._hosts[rank].command(*pinned) if self._hosts else pinned

        return command


@contextmanager
def places() -> Iterator[list[Place]]:
    """Yield the placements: this host, and a pair of hosts if the system can create one."""
    try:
        with link() as made:
            yield [Place("loopback"), Place("two hosts", made.hosts)]
    except pytest.skip.Exception:
        yield [Place("loopback")]


@contextmanager
def ranks(place: Place, what: str, size: int) -> Iterator[Callable[[], float]]:
    """Start two ranks of this program; yield a function that measures the seconds of one execution."""
    addresses = place.addresses()
    program = [sys.executable, "-W", "ignore", "-m", "tests.bench_self.network", what, str(size), *addresses]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    place.command_at(rank)(*program, str(rank)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    encoding="utf-8",
                )
            )
            for rank in range(2)
        ]

        def measure() -> float:
            for process in processes:
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()
            assert processes[0].stdout
            return float(processes[0].stdout.readline())

        try:
            yield measure
        finally:
            for process in processes:
                assert process.stdin
                process.stdin.close()  # both, before waiting for either


def pingpong_against_netpipe(console: Console) -> list[Bound]:
    """Return NPtcp's half round-trip time ÷ pingpong's: latency for small messages, bandwidth for large ones."""
    if shutil.which("NPtcp") is None:
        console.print("NPtcp is not installed: containers/ci/network.sh installs it")
        return []
    bounds = []
    with places() as found:
        for place, size in ((place, size) for place in found for size in PINGPONG_BYTES):
            with ranks(place, "pingpong", size) as measure:
                repeats = max(1, round(TRIAL_SECONDS / measure()))
                theirs = partial(netpipe, size, place.host, place.command_at(0), place.command_at(1), repeats=repeats)
                name = f"pingpong {size} bytes, {place.name}: time of NPtcp ÷ ours"
                bounds.append(compare_times(name, theirs, lambda: measure() / 2, console))
    return bounds


def gloo_against_bare_loop(console: Console) -> list[Bound]:
    """Return the bus bandwidth of our all-reduce by gloo ÷ the bandwidth of a loop in plain PyTorch."""
    if find_spec("torch") is None:
        console.print(not_installed("torch", install_framework("torch", "cpu")))
        return []
    bounds, place = [], Place("loopback")
    for size in GLOO_BYTES:
        with ranks(place, "bare", size) as bare, ranks(place, "collectives", size) as measure:
            # With equal messages and ranks, the ratio of bandwidths is the inverse ratio of times.
            name = f"all-reduce {size} bytes by gloo: bandwidth ÷ bare loop's"
            bounds.append(compare_times(name, bare, measure, console))
    return bounds


def compare_times(name: str, theirs: Callable[[], float], ours: Callable[[], float], console: Console) -> Bound:
    """Return the ratio of their time to ours, measured alternately `ROUNDS` times."""
    bound = Bound(name, "×", at_least=1 - WITHIN)
    for _ in range(ROUNDS):
        times = theirs(), ours()
        bound.found.append(times[0] / times[1])
        console.print(f"{name}: {times[0] * 1e6:.1f} / {times[1] * 1e6:.1f} µs")
    return bound


def rank(what: str, size: int, here: World) -> None:
    """Run one of two ranks: for each line on stdin, measure and print the best of the trials."""
    join(here)
    measure = bare_loop(size, here) if what == "bare" else partial(trials, what, size)
    for _ in sys.stdin:
        print(measure(), flush=True)


def trials(what: str, size: int) -> float | None:
    """Return our best trial on a new connection, as in NPtcp, since the buffers of a connection grow with time."""
    connection.cache_clear()
    own = {"pingpong": {"impl": "tcp"}, "collectives": {"op": "all-reduce", "impl": "gloo"}}[what]
    task = discover()[what].prepare(Point(what, "cpu", {**own, "bytes": size, "processes": 2}, seed=1))
    assert isinstance(task, Task)
    assert task.together
    if world().rank > 0:
        task.together.follow()
        return None
    assert task.verify().passed
    assert task.sample
    loops = max(1, round(TRIAL_SECONDS / task.sample(WARM_UP)))
    best = min(task.sample(loops) for _ in range(TRIALS))
    task.together.finish()
    return best


def bare_loop(size: int, here: World) -> Callable[[], float]:
    """Return a function that times all-reduces in a loop in plain PyTorch."""
    import torch
    from torch import distributed

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    host, port = Address.parse(here.addresses[0])
    store = distributed.TCPStore(host, port, here.size, here.rank == 0)
    distributed.init_process_group("gloo", store=store, rank=here.rank, world_size=here.size)
    data = torch.randn(size // 4)

    def call() -> None:
        distributed.all_reduce(data)

    def measure() -> float:
        loops = torch.tensor(TRIAL_SECONDS / sample_seconds(call, WARM_UP))
        distributed.broadcast(loops, 0)  # both ranks must make the same number of calls
        return min(sample_seconds(call, max(1, round(float(loops)))) for _ in range(TRIALS))

    return measure


if __name__ == "__main__":
    what, size, *addresses, number = sys.argv[1:]
    rank(what, int(size), World(rank=int(number), size=2, addresses=addresses, secret=addresses[0]))
