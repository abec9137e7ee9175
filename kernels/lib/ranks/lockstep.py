"""Lockstep execution of ranks: rank 0 sends commands that all ranks execute, over separate channels.

The timed messages use the measured communication library; the channels carry a few bytes before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accelbench.profiling.benchmark import Task, Together
from accelbench.profiling.ranks.channel import Address, Channel, Message
from accelbench.profiling.ranks.rendezvous import connect, gather, listen
from accelbench.profiling.ranks.world import PROGRESS, World
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.host import sample_seconds

MEET_SECONDS = 60.0
"""Seconds within which all ranks must connect; their workers start at the same time."""


class PointEnded(Exception):
    """Raised on other ranks if rank 0 ended the point."""


class Lockstep:
    """Channels from rank 0 to each of the other ranks."""

    def __init__(self, here: World) -> None:
        """Connect at rank 0's address; raise OSError if that fails."""
        self.rank, self.size = here.rank, here.size
        address = Address.parse(here.addresses[0])
        if here.rank == 0:
            self._peers: dict[int, Channel] = {}
            if here.size > 1:
                with listen(address) as listener:
                    self._peers = gather(listener, range(1, here.size), MEET_SECONDS, here.secret)
        else:
            self._peers = {0: connect(address, MEET_SECONDS, here.secret, rank=here.rank)}

    def exchange(self, value: Any) -> list[Any]:
        """Return the values of all ranks, rank 0 first; all ranks return within the time of a message.

        Raise ConnectionError if a rank has ended, PointEnded if rank 0 ended the point.
        """
        if self.rank == 0:
            values = [value, *(self._receive(rank)["value"] for rank in self._peers)]
            self._send(values=values)
            return values
        self._send(value=value)
        message = self._receive(0)
        if "values" not in message:
            raise PointEnded
        found: list[Any] = message["values"]
        return found

    def send_command(self, what: Any) -> None:
        """Send a command from rank 0 without waiting for the other ranks."""
        self._send(next=what)

    def receive_command(self) -> Any:
        """Return the next command of rank 0."""
        return self._receive(0)["next"]

    def close(self) -> None:
        """Close the channels, so that other ranks stop waiting for this one."""
        for peer in self._peers.values():
            peer.close()

    def _send(self, **message: Any) -> None:
        for rank, peer in self._peers.items():
            if not peer.send(**message):
                raise ConnectionError(f"rank {rank} has ended")

    def _receive(self, rank: int) -> Message:
        message = self._peers[rank].receive()
        if message is None:
            raise ConnectionError(f"rank {rank} has ended")
        return message


_CONNECTED: dict[str, Lockstep] = {}


def lockstep(here: World) -> Lockstep:
    """Return the channels between the ranks of a world, opened once for all points."""
    place = here.model_dump_json()
    if place not in _CONNECTED:
        leave()
        _CONNECTED[place] = Lockstep(here)
    return _CONNECTED[place]


def leave() -> None:
    """Close all channels, so that other ranks stop waiting for this one."""
    while _CONNECTED:
        _CONNECTED.popitem()[1].close()


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class RankSteps:
    """Functions that a rank executes in lockstep with the others."""

    run: Callable[[int], object]
    """Does a number of executions and waits for their end."""
    check: Callable[[], Any]
    """Does one execution on fresh data and returns the result as a JSON value."""
    load: Callable[[], object] = nothing
    """Restores the inputs that executions overwrite; not timed."""


def lockstep_task(
    steps: Lockstep,
    part: RankSteps,
    judge: Callable[[list[Any]], Verification],
    work: Work,
    metrics: Callable[[float], dict[str, Metric]],
    seconds: Callable[[Sequence[float]], float] = max,
) -> Task:
    """Return this rank's task; calls of rank 0's task are executed by all ranks.

    `judge` returns the verification from the results of all ranks. `seconds` combines the ranks' times of a sample, by
    default to the longest, because an execution ends when the last rank has finished.
    """

    def one() -> None:
        part.load()
        part.run(1)
        steps.exchange(None)

    def timed(loops: int) -> float:
        part.load()
        steps.exchange(None)
        part.run(1)  # untimed: synchronises the ranks, which leave the exchange at different times
        own = sample_seconds(lambda: part.run(loops), 1) / loops
        return seconds(steps.exchange(own))

    def check() -> list[Any]:
        return steps.exchange(part.check())

    does: dict[str, Callable[..., Any]] = {"one": one, "timed": timed, "check": check}

    def do(name: str, *arguments: int) -> Any:
        PROGRESS.at("step")
        return does[name](*arguments)

    def lead(name: str, *arguments: int) -> Any:
        steps.send_command([name, *arguments])
        return do(name, *arguments)

    def follow() -> None:
        with suppress(PointEnded):
            while what := steps.receive_command():
                do(*what)

    return Task(
        run=lambda: lead("one"),
        verify=lambda: judge(lead("check")),
        work=work,
        timer="host",
        metrics=metrics,
        sample=lambda loops: float(lead("timed", loops)),
        together=Together(follow, finish=lambda: steps.send_command(None)),
    )
