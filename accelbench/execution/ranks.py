"""Several ranks of one run, as rank 0 has them: it is the runner, and tells each over a channel which worker to start.

The ranks' workers train and exchange through the frameworks' own engines; what goes over these channels is who measures
what, and how it ended. A rank that is lost costs the points that need it.
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
from accelbench.environment.differences import unlike
from accelbench.execution.cluster import Cluster
from accelbench.execution.store import OtherRank
from accelbench.execution.worker import Order
from accelbench.profiling.ranks.channel import Address, Channel, Message, free_port
from accelbench.profiling.ranks.rendezvous import derive
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored, first_fault

GATHER_SECONDS = 60.0
"""The time within which all ranks must have come, in seconds."""
ANSWER_SECONDS = 25.0
"""The time in seconds after which a rank that gives no sign of life is lost: all hear of it within half a minute."""


class RankLost(Exception):
    """A rank that a point needs has ended, or gives no sign of life."""


class Hello(Stored):
    """The message by which a rank makes itself known to rank 0."""

    rank: int
    size: int
    version: str
    host: str
    environment: Environment


def hello(cluster: Cluster, environment: Environment) -> Hello:
    """Return the hello of this process."""
    return Hello(
        rank=cluster.rank,
        size=cluster.size,
        version=__version__,
        host=socket.gethostname(),
        environment=environment,
    )


def where(hellos: Iterable[Hello]) -> str:
    """Return how many ranks are on which host, in words."""
    hosts = Counter(hello.host for hello in hellos)
    return ", ".join(f"{count} on {host}" for host, count in hosts.items())


class Peer:
    """Another rank as rank 0 has it: the channel to it, what it said of itself, and why it is lost, if it is."""

    def __init__(self, channel: Channel, hello: Hello, node: int = 0) -> None:
        self.channel = channel
        self.hello = hello
        self.node = node
        """The number of its host, which records do not name."""
        self.lost: str | None = None
        """The reason, in words, why it takes part no more."""

    def answer(self, name: str, deadline: float) -> Any:
        """Return what it answers; None where it is lost, as it is if it does not answer in time."""
        found = self.channel.answer(name, max(0.0, deadline - monotonic()))
        if found is None:
            self.lose()
        return found

    def lose(self) -> str:
        """Have it take part no more, and return why: a rank that comes to itself later ends."""
        ended = self.channel.fault or "its connection was lost"
        self.lost = self.lost or (f"it gave no sign of life for {ANSWER_SECONDS:g} s" if self.channel.open else ended)
        self.channel.close()
        return self.lost


class Meeting(NamedTuple):
    """The things by which the workers of a point find each other, and tell each other from strangers."""

    addresses: list[str]
    """A host and a free port of each rank."""
    nonce: str
    """The number from which every rank makes the workers' secret, by the secret of the run."""
    secret: str


class Ranks:
    """The ranks of a run as rank 0 sees them."""

    def __init__(self, cluster: Cluster, own: Hello, peers: Sequence[Peer], secret: str) -> None:
        self.cluster = cluster
        self.peers = peers
        """Ranks 1, 2, …"""
        self.hellos = [own, *(peer.hello for peer in peers)]
        """The hellos of ranks 0, 1, …"""
        self._secret = secret
        hosts = list(dict.fromkeys(hello.host for hello in self.hellos))
        self.nodes = [hosts.index(hello.host) for hello in self.hellos]
        """The number of each rank's host, which records do not name."""
        for peer, node in zip(peers, self.nodes[1:], strict=True):
            peer.node = node

    @property
    def size(self) -> int:
        return len(self.hellos)

    def others(self) -> list[OtherRank]:
        """Return all ranks but rank 0, as the run keeps them."""
        found = zip(self.hellos, self.nodes, strict=True)
        return [OtherRank(rank=hello.rank, node=node, environment=hello.environment) for hello, node in found][1:]

    def lost(self) -> list[str]:
        """Return which ranks were lost, and how, in words; their hosts are named."""
        return [
            f"rank {each.hello.rank} on {each.hello.host} was lost: {each.lost}" for each in self.peers if each.lost
        ]

    def meeting(self, size: int) -> Meeting:
        """Return how the workers of so many ranks find each other; RankLost if one of these does not answer."""
        peers = self.peers[: size - 1]
        for peer in peers:
            peer.channel.send(port=True)
        deadline = monotonic() + ANSWER_SECONDS
        ports = [peer.answer("port", deadline) for peer in peers]
        gone = [f"rank {peer.hello.rank} on node {peer.node} is lost: {peer.lost}" for peer in peers if peer.lost]
        if gone:
            raise RankLost("; ".join(gone))
        own, _ = peers[0].channel.hosts
        others = [Address(peer.channel.hosts[1], int(port)) for peer, port in zip(peers, ports, strict=True)]
        nonce = token_hex(32)
        return Meeting(
            [str(each) for each in (Address(own, free_port(own)), *others)], nonce, derive(self._secret, nonce)
        )

    def sentence(self) -> str:
        """Return who the ranks are, in words."""
        return f"{self.size} ranks of {self.cluster.launcher}: {where(self.hellos)}"

    def too_few_gpus(self, size: int) -> str | None:
        """Return, in words, which node has fewer GPUs than ranks; None where each rank has its own."""
        nodes = self.nodes[:size]
        for node in sorted(set(nodes)):
            members = [hello for hello, its in zip(self.hellos, nodes, strict=False) if its == node]
            cards = {gpu.uuid_hash for hello in members for gpu in hello.environment.gpus}
            if len(cards) < len(members):
                return f"{len(members)} of its {size} processes are on node {node}, and see {len(cards)} GPUs there"
        return None

    def unlike(self, device: Device) -> Iterator[str]:
        """Yield, in words, where a rank's libraries or devices are not those of rank 0."""
        first = self.hellos[0].environment
        for hello in self.hellos[1:]:
            for difference in unlike(first, hello.environment, device):
                yield f"rank {hello.rank} on {hello.host} differs from rank 0: {difference}"


class RemoteWorker:
    """The worker of another rank, through the channel to that rank."""

    def __init__(self, peer: Peer, order: Order, nonce: str) -> None:
        """Have it started; the rank makes the workers' secret itself, so that none goes over the network."""
        self._peer, self._channel = peer, peer.channel
        self._heard = monotonic()
        self._channel.send(start=order.model_dump(mode="json", exclude={"world": {"secret"}}), nonce=nonce)

    def fileno(self) -> int:
        """Return the descriptor of the channel, to wait on."""
        return self._channel.fileno()

    def read(self) -> list[Message]:
        """Return the worker's messages, once there is something to read; the last one is `ended`.

        The values of `record` and `measured` are validated `Record`s; an invalid one ends the worker.
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
                        reason = f"its record is damaged: {first_fault(error)}"
                        return [*found, {"ended": reason, "signal": None, "tail": []}]
                case {"alive": _}:
                    pass
                case _:
                    found.append(message)
        return found if self._channel.open else [*found, self._end()]

    def overdue(self) -> list[Message]:
        """Return the message `ended` if the rank itself gives no sign of life any more, and nothing while it does."""
        return [self._end()] if monotonic() - self._heard > ANSWER_SECONDS else []

    def _end(self) -> Message:
        return {"ended": self._peer.lose(), "signal": None, "tail": [], "lost": True}

    def tail(self) -> list[str]:
        """Return nothing: the output of another rank's worker stays there."""
        return []

    def last_words(self) -> list[str]:
        """Return what the worker printed last, and where it stands."""
        self._channel.send(last_words=True)
        found: list[str] = self._peer.answer("last_words", monotonic() + ANSWER_SECONDS) or ["the rank does not answer"]
        return found

    def close(self) -> None:
        """Have the worker ended."""
        self._channel.send(stop=True)
        self._peer.answer("stopped", monotonic() + ANSWER_SECONDS)
