"""Two hosts and the link between them: network namespaces joined by a veth pair, whose rate the kernel shapes.

They are real hosts as far as the network goes: each has its own interfaces, addresses, name and TCP state. All of it is
gone after the `with` block, however that ends.

The rate. A token bucket (tc-tbf(8)) on either end lets bytes out at `rate`, and holds at most `burst` bytes of credit.
The kernel's timer wakes the queue when the next packet is due. If it comes late, what was earned meanwhile is kept as
credit, up to the burst; what exceeds it is lost, and the link is slower than it should be. So the burst must hold what
is earned while a timer can be late: LATE_SECONDS, ample for a busy virtual machine. But a link that was idle has its
bucket full, and the next message has so many bytes for nothing: what is sent must be many times the burst.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf

from tests.requirements import not_tested

LATE_SECONDS = 2e-3
WAKES = 4
"""The times that a rank is woken in one execution: by its beginning, by the other's first bytes, by what comes back
(the second half of an all-reduce, which waits for the first), and by its end."""
QUEUE_BYTES = 16 << 20
"""The queue's bytes, more than a socket may have on its way (`tcp_wmem`, 4 MiB): no drop ever slows TCP down."""
HOSTS = ("root", "iproute2", "namespaces")
"""What two hosts need, as tests declare it."""
FRAME, PAYLOAD = 1514, 1448
"""A full Ethernet frame as the bucket counts it (14 bytes of header and the MTU of 1,500), and what TCP carries in it:
without 20 bytes of IP's header, 20 of TCP's, and 12 of the time stamps."""
ACKNOWLEDGEMENT = 66
"""A frame of headers alone, which answers two full ones at most (RFC 1122, 4.2.3.2)."""
DEVICE = "link0"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
NAMES = (f"accelbench-{os.getpid()}-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Host:
    """One end of the link."""

    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """The command that runs on this host, under its name."""
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self.name, *named, *words]


@dataclass(frozen=True)
class Link:
    """Two hosts, and what one way between them carries."""

    hosts: tuple[Host, Host]
    rate: float
    """Bytes per second of frames."""

    @property
    def burst(self) -> int:
        return round(self.rate * LATE_SECONDS)

    def most(self, size: int) -> float:
        """Return the most bytes per second at which that many bytes can get across: the bucket was full."""
        return size / ((size * FRAME / PAYLOAD - self.burst) / self.rate)

    def least(self, size: int, both_ways: bool) -> float:
        """Return the least bytes per second: the bucket was empty, and both ends were late whenever they were woken.

        Where data flows both ways, each way carries the acknowledgements of the other, too.
        """
        frames = size * FRAME / PAYLOAD * (1 + ACKNOWLEDGEMENT / (2 * FRAME) if both_ways else 1)
        return size / (frames / self.rate + WAKES * LATE_SECONDS)


def run(*words: str) -> None:
    """Run a command; RuntimeError with what it said."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


@contextmanager
def link(mbit_per_s: float = inf) -> Iterator[Link]:
    """Two hosts with a link of that rate each way, by default as fast as it is; a skip where none can be made."""
    one, other = ADDRESSES
    found = Link((Host(next(NAMES), one), Host(next(NAMES), other)), rate=mbit_per_s * 1e6 / 8)
    with ExitStack() as undo:
        try:
            _make(found, undo)
        except (RuntimeError, FileNotFoundError) as error:
            not_tested("namespaces", str(error))
        yield found


def _make(made: Link, undo: ExitStack) -> None:
    for host in made.hosts:
        run("ip", "netns", "add", host.name)
        undo.callback(run, "ip", "netns", "delete", host.name)
    here, there = (host.name for host in made.hosts)
    # The pair goes with either of its namespaces.
    run("ip", "link", "add", DEVICE, "netns", here, "type", "veth", "peer", "name", DEVICE, "netns", there)
    for host in made.hosts:
        on = ("ip", "-netns", host.name)
        run(*on, "address", "add", f"{host.address}/24", "dev", DEVICE)
        for device in ("lo", DEVICE):
            run(*on, "link", "set", device, "up")
        if made.rate < inf:
            bucket = ("rate", f"{round(made.rate * 8)}bit", "burst", str(made.burst), "limit", str(QUEUE_BYTES))
            run("tc", "-netns", host.name, "qdisc", "add", "dev", DEVICE, "root", "tbf", *bucket)
        # The one that every kernel has, and any namespace may use; others, such as BBR, send at a rate of their own.
        run(*host.command("sysctl", "--quiet", "--write", "net.ipv4.tcp_congestion_control=reno"))
