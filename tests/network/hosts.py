"""Two simulated hosts with a link of limited rate: network namespaces joined by a veth pair with traffic shaping.

Each host has its own interfaces, addresses, host name and TCP state. Everything is removed at the end of the `with`
block.

Rate limit: a token bucket (tc-tbf(8)) at each end sends at `rate` bytes per second, with a credit of at most `burst`
bytes. If the kernel's timer is late, the credit of the delay is kept up to the burst, and the rest is lost, which slows
the link. The burst must therefore cover the delay of a timer, LATE_SECONDS, an ample value for a busy virtual machine.
After an idle period the bucket is full, and the first `burst` bytes are not delayed: messages must be much larger.
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
"""Wake-ups of a rank per execution: at the start, at the other rank's first bytes, at the response (the second half of
an all-reduce, which waits for the first), and at the end."""
QUEUE_BYTES = 16 << 20
"""Queue size in bytes, larger than the data in flight of a socket (`tcp_wmem`, 4 MiB), so that no packet is dropped."""
HOSTS = ("root", "iproute2", "namespaces")
"""Requirements of two hosts, for the marker `needs`."""
FRAME, PAYLOAD = 1514, 1448
"""Size of a full Ethernet frame in the token bucket (14 bytes of header and the MTU of 1,500), and its TCP payload
(without 20 bytes of IP header, 20 of TCP header, and 12 of time stamps)."""
ACKNOWLEDGEMENT = 66
"""Size of an acknowledgement frame, sent for at most two full frames (RFC 1122, 4.2.3.2)."""
DEVICE = "link0"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
NAMES = (f"accelbench-{os.getpid()}-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Host:
    """One end of the link."""

    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs `words` on this host."""
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self.name, *named, *words]


@dataclass(frozen=True)
class Link:
    """Two hosts and the rate of each direction between them."""

    hosts: tuple[Host, Host]
    rate: float
    """Bytes per second of frames."""

    @property
    def burst(self) -> int:
        return round(self.rate * LATE_SECONDS)

    def most(self, size: int) -> float:
        """Return the maximum bandwidth in bytes per second for a message of `size` bytes: the bucket is full."""
        return size / ((size * FRAME / PAYLOAD - self.burst) / self.rate)

    def least(self, size: int, both_ways: bool) -> float:
        """Return the minimum bandwidth in bytes per second: the bucket is empty and every wake-up is late.

        With data in both directions, each direction also carries the acknowledgements of the other.
        """
        frames = size * FRAME / PAYLOAD * (1 + ACKNOWLEDGEMENT / (2 * FRAME) if both_ways else 1)
        return size / (frames / self.rate + WAKES * LATE_SECONDS)


def run(*words: str) -> None:
    """Run a command; raise RuntimeError with its output if it fails."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


@contextmanager
def link(mbit_per_s: float = inf) -> Iterator[Link]:
    """Create two hosts with a link of this rate in each direction (default: unlimited); skip the test if impossible."""
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
    # The pair is removed with either of its namespaces.
    run("ip", "link", "add", DEVICE, "netns", here, "type", "veth", "peer", "name", DEVICE, "netns", there)
    for host in made.hosts:
        on = ("ip", "-netns", host.name)
        run(*on, "address", "add", f"{host.address}/24", "dev", DEVICE)
        for device in ("lo", DEVICE):
            run(*on, "link", "set", device, "up")
        if made.rate < inf:
            bucket = ("rate", f"{round(made.rate * 8)}bit", "burst", str(made.burst), "limit", str(QUEUE_BYTES))
            run("tc", "-netns", host.name, "qdisc", "add", "dev", DEVICE, "root", "tbf", *bucket)
        # Reno is available in every kernel and namespace; others, such as BBR, set their own rate.
        run(*host.command("sysctl", "--quiet", "--write", "net.ipv4.tcp_congestion_control=reno"))
