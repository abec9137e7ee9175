"""Ranks that do the same at once: rank 0 says what comes next, over sockets that nothing else uses.

What is timed goes through the engine that is measured; only before and after do a few bytes go through these sockets.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from profiling.benchmark import Task
from profiling.ranks.world import DOING, World
from profiling.records.quality import Metric, Verification
from profiling.records.work import Work
from profiling.timing.host import sample_seconds

MEET_SECONDS = 60.0
"""Within which all ranks must have come; their workers start together."""
RETRY_SECONDS = 0.05


class Over(Exception):
    """Rank 0 has ended the point."""


class Lockstep:
    """A socket from rank 0 to each of the others; a message is a line of JSON."""

    def __init__(self, here: World) -> None:
        """Meet at rank 0's address; OSError where that cannot be."""
        self.rank, self.size = here.rank, here.size
        self._peers = _accept(here) if here.rank == 0 else {0: _reach(here)}
        self._lines = {rank: peer.makefile("rb") for rank, peer in self._peers.items()}

    def exchange(self, value: Any) -> list[Any]:
        """Every rank's value, of rank 0 first; they leave here at once, within the time of a message.

        ConnectionError if a rank has ended, Over if rank 0 broke off.
        """
        if self.rank == 0:
            values = [value, *(self._read(rank) for rank in self._peers)]
            self._write({"values": values})
            return values
        self._write(value)
        message = self._read(0)
        if "values" not in message:
            raise Over
        found: list[Any] = message["values"]
        return found

    def say(self, what: Any) -> None:
        """As rank 0, what comes next; the others need not be there to hear it yet."""
        self._write({"next": what})

    def hear(self) -> Any:
        """As another rank, what rank 0 says next."""
        return self._read(0)["next"]

    def close(self) -> None:
        """Let the others know that this rank has ended."""
        for peer in self._peers.values():
            with suppress(OSError):  # the other end may have closed it
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def _write(self, message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        for rank, peer in self._peers.items():
            try:
                peer.sendall(line)
            except OSError:
                raise _ended(rank) from None

    def _read(self, rank: int) -> Any:
        try:
            line = self._lines[rank].readline()
        except OSError:
            line = b""
        if not line:
            raise _ended(rank)
        return json.loads(line)


def _ended(rank: int) -> ConnectionError:
    return ConnectionError(f"rank {rank} has ended")


def _accept(here: World) -> dict[int, socket.socket]:
    host, port = split(here.addresses[0])
    found: dict[int, socket.socket] = {}
    with socket.create_server((host, port)) as listener:
        listener.settimeout(MEET_SECONDS)
        while len(found) < here.size - 1:
            peer = listener.accept()[0]
            no_delay(peer)
            found[int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big")] = peer
    return {rank: found[rank] for rank in sorted(found)}


def _reach(here: World) -> socket.socket:
    peer = reach(here.addresses[0])
    peer.sendall(here.rank.to_bytes(4, "big"))
    return peer


def reach(address: str) -> socket.socket:
    """A connection to `host:port`, where another rank is about to listen; OSError if it does not."""
    deadline = monotonic() + MEET_SECONDS
    while True:
        try:
            peer = socket.create_connection(split(address), timeout=MEET_SECONDS)
        except ConnectionRefusedError:
            if monotonic() > deadline:
                raise
            sleep(RETRY_SECONDS)
        else:
            peer.settimeout(None)
            no_delay(peer)
            return peer


def split(address: str) -> tuple[str, int]:
    """Host and port of `host:port`."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def no_delay(peer: socket.socket) -> None:
    """Small messages leave at once, and do not wait for the answer to the one before (Nagle's algorithm)."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


_MET: dict[str, Lockstep] = {}


def lockstep(here: World) -> Lockstep:
    """The sockets between the ranks of this world, the same for all points that these measure."""
    place = here.model_dump_json()
    if place not in _MET:
        leave()
        _MET[place] = Lockstep(here)
    return _MET[place]


def leave() -> None:
    """Close the sockets, if there are any: a rank that waits for this one is told that it has ended."""
    while _MET:
        _MET.popitem()[1].close()


def nothing() -> None:
    """Where there is nothing to do."""


@dataclass(frozen=True)
class Part:
    """A rank's part in what the ranks do together."""

    run: Callable[[int], object]
    """So many executions, to their end."""
    check: Callable[[], Any]
    """One execution on fresh data; what was found, as JSON holds it."""
    load: Callable[[], object] = nothing
    """Before executions, untimed: what they overwrite is what it was."""


def together(
    steps: Lockstep,
    part: Part,
    judge: Callable[[list[Any]], Verification],
    work: Work,
    metrics: Callable[[float], dict[str, Metric]],
    seconds: Callable[[Sequence[float]], float] = max,
) -> Task:
    """The task of this rank, the same call in each; rank 0's leads.

    `judge` makes the verification of what every rank found. `seconds` makes the time of a sample of every rank's own:
    the longest unless given, since an execution has ended when it has on the last rank.
    """

    def one() -> None:
        DOING.at("step")
        part.load()
        part.run(1)
        steps.exchange(None)

    def timed(loops: int) -> float:
        DOING.at("step")
        part.load()
        steps.exchange(None)
        part.run(1)  # the last to hear of the exchange begins late: this execution waits for it, and is not timed
        own = sample_seconds(lambda: part.run(loops), 1) / loops
        return seconds(steps.exchange(own))

    def check() -> list[Any]:
        DOING.at("step")
        return steps.exchange(part.check())

    def follow() -> None:
        try:
            while True:
                match steps.hear():
                    case {"sample": loops}:
                        timed(loops)
                    case "one":
                        one()
                    case "check":
                        check()
                    case _:
                        return
        except Over:
            return

    if steps.rank > 0:
        return Task(run=nothing, verify=lambda: judge([]), work=work, follow=follow)

    def lead(what: Any, do: Callable[[], Any]) -> Any:
        steps.say(what)
        return do()

    return Task(
        run=lambda: lead("one", one),
        verify=lambda: judge(lead("check", check)),
        work=work,
        timer="host",
        metrics=metrics,
        sample=lambda loops: float(lead({"sample": loops}, lambda: timed(loops))),
        finish=lambda: steps.say("end"),
    )
