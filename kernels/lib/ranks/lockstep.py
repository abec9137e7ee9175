"""Ranks that do the same at once: rank 0 says what comes next, over channels that nothing else uses.

What is timed goes through the engine that is measured; only before and after do a few bytes go through these channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accelbench.profiling.benchmark import Task, Together
from accelbench.profiling.ranks.channel import Address, Channel, Message
from accelbench.profiling.ranks.meeting import connect, gather, listen
from accelbench.profiling.ranks.world import DOING, World
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.host import sample_seconds

MEET_SECONDS = 60.0
"""The time within which all ranks must have come, in seconds; their workers start together."""


class Over(Exception):
    """Rank 0 has ended the point."""


class Lockstep:
    """A channel from rank 0 to each of the others."""

    def __init__(self, here: World) -> None:
        """Meet at rank 0's address; OSError where that cannot be."""
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
        """Return every rank's value, of rank 0 first; they leave here at once, within the time of a message.

        ConnectionError if a rank has ended, Over if rank 0 broke off.
        """
        if self.rank == 0:
            values = [value, *(self._receive(rank)["value"] for rank in self._peers)]
            self._send(values=values)
            return values
        self._send(value=value)
        message = self._receive(0)
        if "values" not in message:
            raise Over
        found: list[Any] = message["values"]
        return found

    def say(self, what: Any) -> None:
        """Say, as rank 0, what comes next; the others need not be there to hear it yet."""
        self._send(next=what)

    def hear(self) -> Any:
        """Return, as another rank, what rank 0 says next."""
        return self._receive(0)["next"]

    def close(self) -> None:
        """Let the others know that this rank has ended."""
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


_MET: dict[str, Lockstep] = {}


def lockstep(here: World) -> Lockstep:
    """Return the channels between the ranks of this world, the same for all points that these measure."""
    place = here.model_dump_json()
    if place not in _MET:
        leave()
        _MET[place] = Lockstep(here)
    return _MET[place]


def leave() -> None:
    """Close the channels, if there are any: a rank that waits for this one is told that it has ended."""
    while _MET:
        _MET.popitem()[1].close()


def nothing() -> None:
    """Do nothing, where there is nothing to do."""


@dataclass(frozen=True)
class Part:
    """A rank's part in what the ranks do together."""

    run: Callable[[int], object]
    """Do so many executions, to their end."""
    check: Callable[[], Any]
    """Do one execution on fresh data, and return what was found, as JSON holds it."""
    load: Callable[[], object] = nothing
    """Bring back, untimed, what executions overwrite."""


def together(
    steps: Lockstep,
    part: Part,
    judge: Callable[[list[Any]], Verification],
    work: Work,
    metrics: Callable[[float], dict[str, Metric]],
    seconds: Callable[[Sequence[float]], float] = max,
) -> Task:
    """Return this rank's task, by the same call in each rank: what is asked of rank 0's, all ranks do.

    `judge` makes the verification of what every rank found. `seconds` makes the time of a sample of every rank's own:
    the longest unless given, since an execution has ended when it has on the last rank.
    """

    def one() -> None:
        part.load()
        part.run(1)
        steps.exchange(None)

    def timed(loops: int) -> float:
        part.load()
        steps.exchange(None)
        part.run(1)  # the last to hear of the exchange begins late: this execution waits for it, and is not timed
        own = sample_seconds(lambda: part.run(loops), 1) / loops
        return seconds(steps.exchange(own))

    def check() -> list[Any]:
        return steps.exchange(part.check())

    does: dict[str, Callable[..., Any]] = {"one": one, "timed": timed, "check": check}

    def do(name: str, *arguments: int) -> Any:
        DOING.at("step")
        return does[name](*arguments)

    def lead(name: str, *arguments: int) -> Any:
        steps.say([name, *arguments])
        return do(name, *arguments)

    def follow() -> None:
        with suppress(Over):
            while what := steps.hear():
                do(*what)

    return Task(
        run=lambda: lead("one"),
        verify=lambda: judge(lead("check")),
        work=work,
        timer="host",
        metrics=metrics,
        sample=lambda loops: float(lead("timed", loops)),
        together=Together(follow, finish=lambda: steps.say(None)),
    )
