"""Ranks of a run as seen by rank 0, the runner, which requests workers from the others over channels.

The workers communicate through their frameworks; these channels carry only jobs and results. If a rank is lost, the
points that need it are skipped.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from pydantic import ValidationError

from accelbench import __version__
from accelbench.environment.differences import rank_differences
from accelbench.execution.cluster import Cluster
from accelbench.execution.store import OtherRank
from accelbench.execution.worker import WorkerJob
from accelbench.profiling.ranks.channel import Address, Channel, Message, free_port
from accelbench.profiling.ranks.rendezvous import derive
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored, first_fault

GATHER_SECONDS = 60.0
"""Timeout in seconds for the connection of all ranks."""
ANSWER_SECONDS = 25.0
"""Seconds without a heartbeat or answer after which a rank is lost."""


class RankLost(Exception):
    """Loss of a rank that a point needs: it has ended, or sends no heartbeats.

    `is_new` is whether the rank was not known to be lost before.
    """

    def __init__(self, reason: str, is_new: bool) -> None:
        super().__init__(reason)
        self.is_new = is_new


class Handshake(Stored):
    """First message of a rank to rank 0."""

    rank: int
    size: int
    version: str
    host: str
    environment: Environment


def own_handshake(cluster: Cluster, environment: Environment) -> Handshake:
    """Return the handshake of this process."""
    return Handshake(
        rank=cluster.rank,
        size=cluster.size,
        version=__version__,
        host=socket.gethostname(),
        environment=environment,
    )


def hosts_text(handshakes: Iterable[Handshake]) -> str:
    """Return the number of ranks on each host as text."""
    hosts = Counter(handshake.host for handshake in handshakes)
    return ", ".join(f"{count} on {host}" for host, count in hosts.items())


class Peer:
    """Another rank: its channel, its handshake, and the reason if it was lost."""

    def __init__(self, channel: Channel, handshake: Handshake, node: int = 0) -> None:
        self.channel = channel
        self.handshake = handshake
        self.node = node
        """Number of its host; records contain no host names."""
        self.lost: str | None = None
        """Reason of the loss as text; None while the rank is connected."""

    def answer(self, name: str, deadline: float) -> Any:
        """Return the named answer of the rank. Without an answer before `deadline` the rank is lost: return None."""
        found = self.channel.answer(name, max(0.0, deadline - monotonic()))
        if found is None:
            self.lose()
        return found

    def lose(self) -> str:
        """Close the channel and return the reason of the loss; a rank that recovers later ends."""
        ended = self.channel.fault or "its connection was lost"
        self.lost = self.lost or (f"it sent no heartbeat for {ANSWER_SECONDS:g} s" if self.channel.open else ended)
        self.channel.close()
        return self.lost


class WorkerRendezvous(NamedTuple):
    """Addresses and secret with which the workers of a point connect to and authenticate each other."""

    addresses: list[str]
    """Host and free port of each rank."""
    nonce: str
    """Random number from which each rank derives the workers' secret, with the secret of the run."""
    secret: str


class Ranks:
    """Ranks of a run, for use by rank 0."""

    def __init__(self, cluster: Cluster, own: Handshake, peers: Sequence[Peer], secret: str) -> None:
        self.cluster = cluster
        self.peers = peers
        """Ranks 1, 2, …"""
        self.handshakes = [own, *(peer.handshake for peer in peers)]
        """Handshakes of ranks 0, 1, …"""
        self._secret = secret
        hosts = list(dict.fromkeys(handshake.host for handshake in self.handshakes))
        self.nodes = [hosts.index(handshake.host) for handshake in self.handshakes]
        """Number of each rank's host; records contain no host names."""
        for peer, node in zip(peers, self.nodes[1:], strict=True):
            peer.node = node

    @property
    def size(self) -> int:
        return len(self.handshakes)

    def others(self) -> list[OtherRank]:
        """Return all ranks except rank 0, as stored in `run.json`."""
        found = zip(self.handshakes, self.nodes, strict=True)
        return [
            OtherRank(rank=handshake.rank, node=node, environment=handshake.environment) for handshake, node in found
        ][1:]

    def lost(self) -> list[str]:
        """Return the lost ranks with host and reason, one message each."""
        return [
            f"rank {each.handshake.rank} on {each.handshake.host} was lost: {each.lost}"
            for each in self.peers
            if each.lost
        ]

    def rendezvous(self, size: int) -> WorkerRendezvous:
        """Return the rendezvous of the workers of ranks 0 to `size` − 1; raise RankLost if one of the ranks is lost."""
        peers = self.peers[: size - 1]
        known = [peer for peer in peers if peer.lost]
        for peer in peers:
            peer.channel.send(port=True)
        deadline = monotonic() + ANSWER_SECONDS
        ports = [peer.answer("port", deadline) for peer in peers]
        gone = [f"rank {peer.handshake.rank} on node {peer.node} is lost: {peer.lost}" for peer in peers if peer.lost]
        if gone:
            raise RankLost("; ".join(gone), is_new=len(gone) > len(known))
        own, _ = peers[0].channel.hosts
        others = [Address(peer.channel.hosts[1], int(port)) for peer, port in zip(peers, ports, strict=True)]
        nonce = token_hex(32)
        return WorkerRendezvous(
            [str(each) for each in (Address(own, free_port(own)), *others)], nonce, derive(self._secret, nonce)
        )

    def description(self) -> str:
        """Return the number of ranks, their launcher and hosts as text."""
        return f"{self.size} ranks of {self.cluster.launcher}: {hosts_text(self.handshakes)}"

    def too_few_gpus(self, size: int) -> str | None:
        """Return a skip reason if a node has fewer GPUs than ranks, else None."""
        nodes = self.nodes[:size]
        for node in sorted(set(nodes)):
            members = [handshake for handshake, its in zip(self.handshakes, nodes, strict=False) if its == node]
            cards = {gpu.uuid_hash for handshake in members for gpu in handshake.environment.gpus}
            if len(cards) < len(members):
                return f"node {node} has {len(members)} of the point's {size} processes and only {len(cards)} GPUs"
        return None

    def differences(self, device: Device) -> Iterator[str]:
        """Yield the differences between the libraries and devices of each rank and rank 0, as text."""
        first = self.handshakes[0].environment
        for handshake in self.handshakes[1:]:
            for difference in rank_differences(first, handshake.environment, device):
                yield f"rank {handshake.rank} on {handshake.host} differs from rank 0: {difference}"


class RemoteWorker:
    """Worker of another rank, accessed through the channel to the rank."""

    def __init__(self, peer: Peer, job: WorkerJob, nonce: str) -> None:
        """Request its start; the rank derives the workers' secret itself, so the secret is never sent."""
        self._peer, self._channel = peer, peer.channel
        self._heard = monotonic()
        self._channel.send(start=job.model_dump(mode="json", exclude={"world": {"secret"}}), nonce=nonce)

    def fileno(self) -> int:
        """Return the descriptor of the channel."""
        return self._channel.fileno()

    def read(self) -> list[Message]:
        """Return the available messages of the worker; the last message of a worker is `ended`.

        The values of `record` and `measured` are validated `Record` objects; an invalid one ends the worker.
        """
        messages = self._channel.read()
        self._heard = monotonic()
        found: list[Message] = []
        for message in messages:
            match message:
                case {"record": data} | {"measured": data}:
                    try:
                        found.append(dict.fromkeys(message, Record.model_validate(data)))
                    except ValidationError as error:
                        reason = f"its record is invalid: {first_fault(error)}"
                        return [*found, {"ended": reason, "signal": None, "tail": []}]
                case {"alive": _}:
                    pass
                case _:
                    found.append(message)
        return found if self._channel.open else [*found, self._end()]

    def overdue(self) -> list[Message]:
        """Return the message `ended` if the rank sends no heartbeats any more, else an empty list."""
        return [self._end()] if monotonic() - self._heard > ANSWER_SECONDS else []

    def _end(self) -> Message:
        return {"ended": self._peer.lose(), "signal": None, "tail": [], "lost": True}

    def tail(self) -> list[str]:
        """Return an empty list: the output of a remote worker stays on its host."""
        return []

    def tail_and_stack(self) -> list[str]:
        """Return the last lines of the worker's output and its current stack."""
        self._channel.send(tail_and_stack=True)
        found: list[str] | None = self._peer.answer("tail_and_stack", monotonic() + ANSWER_SECONDS)
        return found or ["no output and stack: the rank does not answer"]

    def close(self) -> None:
        """End the worker."""
        self._channel.send(stop=True)
        self._peer.answer("stopped", monotonic() + ANSWER_SECONDS)
