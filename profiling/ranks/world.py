"""World of the ranks that measure a point together: rank, size and addresses, and the progress of this rank.

The terms are MPI's. A point measured by a single process has a world of size 1. A worker sets its world with `join`;
benchmarks read it with `world`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from pydantic import Field

from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.records.stored import Stored

Stage = Literal["prepare", "input", "step"]


class World(Stored):
    """Rank, size and addresses of the processes that measure a point together."""

    rank: int = 0
    """The number of this process, from 0."""
    size: int = 1
    """The number of processes that measure the point together."""
    local_rank: int = 0
    """The number of this process among the ranks of its host, from 0."""
    local_size: int = 1
    """The number of ranks on its host."""
    addresses: list[str] = ["127.0.0.1:0"]
    """The address of each rank: its host, and a free port for the rendezvous of libraries."""

    secret: str = Field(default="", repr=False)
    """The shared secret that authenticates the ranks; it is never stored in a record."""
    trusted: bool = False
    """Whether the user trusts everyone who can reach this host's ports."""

    @property
    def host(self) -> str:
        """Return the address at which the other ranks reach this rank."""
        return Address.parse(self.addresses[self.rank]).host

    @property
    def interface(self) -> str | None:
        """Return the network interface with this rank's address; gloo and NCCL default to the host name's interface."""
        import psutil

        for name, addresses in psutil.net_if_addrs().items():
            if self.host in [address.address for address in addresses]:
                return name
        return None


@dataclass
class RankProgress:
    """Current stage of this rank and the time spent in each stage."""

    stage: Stage = "prepare"
    steps: int = 0
    """The number of started steps."""
    seconds: dict[Stage, float] = field(default_factory=lambda: {"prepare": 0.0, "input": 0.0, "step": 0.0})
    """The seconds spent in each stage, without the current one."""
    since: float = field(default_factory=perf_counter)

    def at(self, stage: Stage) -> None:
        """Enter a stage; entering `step` starts the next step."""
        now = perf_counter()
        self.seconds[self.stage] += now - self.since
        self.stage, self.since = stage, now
        self.steps += stage == "step"


PROGRESS = RankProgress()
_WORLD = [World()]


def world() -> World:
    """Return the world of this process; its size is 1 unless `join` was called."""
    return _WORLD[0]


def join(world: World) -> None:
    """Set the world of this process."""
    _WORLD[0] = world
