"""The world of processes that measure a point together: which one this is, where the others are, what each is doing.

A process is a rank of a world, in MPI's words. A point that one process measures is measured in a world of one. Whoever
starts the processes tells each its place (`join`); what is measured in them asks for it (`world`).
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
    """The place of this process among those that measure a point together."""

    rank: int = 0
    """The number of this process among all of them, from 0."""
    size: int = 1
    """The number of processes that measure the point together."""
    local_rank: int = 0
    """The number of this process among the ranks of its host, from 0."""
    local_size: int = 1
    """The number of ranks on its host."""
    addresses: list[str] = ["127.0.0.1:0"]
    """The address of each rank: its host, and a port that was free there, for libraries to meet at."""

    secret: str = Field(default="", repr=False)
    """The secret of these processes, by which they tell each other from strangers; it is no part of any record."""
    trusted: bool = False
    """Whether the user trusts everyone who can reach this host's ports."""

    @property
    def host(self) -> str:
        """Return this rank's own address, as the others reach it."""
        return Address.parse(self.addresses[self.rank]).host

    @property
    def interface(self) -> str | None:
        """Return the network interface with this rank's address: gloo and NCCL else take that of the host's name."""
        import psutil

        for name, addresses in psutil.net_if_addrs().items():
            if self.host in [address.address for address in addresses]:
                return name
        return None


@dataclass
class RankProgress:
    """The present stage of this process, as a watcher is told it: a rank that does not come to a step holds up all."""

    stage: Stage = "prepare"
    steps: int = 0
    """The number of steps that were begun."""
    seconds: dict[Stage, float] = field(default_factory=lambda: {"prepare": 0.0, "input": 0.0, "step": 0.0})
    """The seconds spent in each stage, as far as they are over."""
    since: float = field(default_factory=perf_counter)

    def at(self, stage: Stage) -> None:
        """Enter this stage; to enter `step` is to begin the next step."""
        now = perf_counter()
        self.seconds[self.stage] += now - self.since
        self.stage, self.since = stage, now
        self.steps += stage == "step"


DOING = RankProgress()
_WORLD = [World()]


def world() -> World:
    """Return this process's place; a world of one, unless it joined another."""
    return _WORLD[0]


def join(world: World) -> None:
    """Take this place."""
    _WORLD[0] = world
