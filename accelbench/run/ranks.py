"""Several ranks of one run: rank 0 is the runner, and tells the others over a channel each which worker to start.

The ranks' workers train and exchange through the frameworks' own engines; what goes over these channels is who measures
what, and how it ended.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from time import monotonic

from accelbench import __version__
from accelbench.differences import unlike
from accelbench.errors import RunBroken, UserError
from accelbench.run.cluster import Cluster
from accelbench.run.store import OtherRank
from accelbench.run.worker import Job
from accelbench.run.worker_process import WorkerProcess
from profiling.ranks.channel import Address, Channel, Message, accept, connect, free_port, listen
from profiling.records.environment import Environment
from profiling.records.point import Device
from profiling.records.stored import Stored

GATHER_SECONDS = 60.0
"""The time within which all ranks must have come, in seconds."""
ANSWER_SECONDS = 30.0
"""The time in seconds after which a rank that does not answer is lost."""


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


class Ranks:
    """The ranks of a run as rank 0 sees them."""

    def __init__(self, cluster: Cluster, channels: Sequence[Channel], hellos: Sequence[Hello]) -> None:
        self.cluster = cluster
        self.channels = channels
        """The channels to ranks 1, 2, …"""
        self.hellos = hellos
        """The hellos of ranks 0, 1, …"""
        hosts = list(dict.fromkeys(hello.host for hello in hellos))
        self.nodes = [hosts.index(hello.host) for hello in hellos]
        """The number of each rank's host, which records do not name."""

    @property
    def size(self) -> int:
        return len(self.hellos)

    def others(self) -> list[OtherRank]:
        """Return all ranks but rank 0, as the run keeps them."""
        found = zip(self.hellos, self.nodes, strict=True)
        return [OtherRank(rank=hello.rank, node=node, environment=hello.environment) for hello, node in found][1:]

    def addresses(self, size: int) -> list[str]:
        """Return a host and a free port of each of so many ranks; RunBroken if one does not answer."""
        channels = self.channels[: size - 1]
        for channel in channels:
            channel.send(port=True)
        own, _ = channels[0].hosts
        found = [Address(own, free_port(own))]
        for rank, channel in enumerate(channels, start=1):
            port = channel.answer("port", ANSWER_SECONDS)
            if port is None:
                raise RunBroken(f"rank {rank} on {self.hellos[rank].host} no longer answers")
            found.append(Address(channel.hosts[1], port))
        return list(map(str, found))

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


@contextmanager
def gathered(cluster: Cluster, environment: Environment) -> Iterator[Ranks]:
    """Wait, as rank 0, for all other ranks; they end with this block.

    UserError where the port is taken, or not all ranks come, or they are not of one launch.
    """
    with ExitStack() as stack:
        ranks = _gather(cluster, environment, stack)
        status = 1
        try:
            yield ranks
            status = 0
        finally:
            for channel in ranks.channels:
                channel.send(end=status)
                channel.close()


def _gather(cluster: Cluster, environment: Environment, stack: ExitStack) -> Ranks:
    every_interface = "::" if ":" in cluster.host else ""
    try:
        listener = stack.enter_context(listen(Address(every_interface, cluster.port)))
    except OSError as error:
        raise UserError(
            f"rank 0 cannot listen at port {cluster.port} ({os.strerror(error.errno or 0)}): another job may have it, "
            "start this anew"
        ) from None
    deadline = monotonic() + GATHER_SECONDS
    channels: dict[int, Channel] = {}
    hellos = {0: hello(cluster, environment)}
    while len(hellos) < cluster.size:
        try:
            channel, said = accept(listener, deadline)
        except TimeoutError:
            raise UserError(_missing(cluster, hellos)) from None
        other = Hello.model_validate(said)
        refusal = _refusal(cluster, other, hellos)
        if refusal:
            channel.send(refused=refusal)
            raise UserError(refusal)
        channels[other.rank], hellos[other.rank] = channel, other
    return Ranks(cluster, [channels[rank] for rank in sorted(channels)], [hellos[rank] for rank in sorted(hellos)])


def _refusal(cluster: Cluster, other: Hello, hellos: Mapping[int, Hello]) -> str | None:
    who = f"rank {other.rank} on {other.host}"
    if other.size != cluster.size:
        return f"{who} was told of {other.size} ranks, and rank 0 of {cluster.size}: they are not of one launch"
    if other.version != __version__:
        return f"{who} runs accelbench {other.version}, and rank 0 {__version__}"
    if other.rank in hellos:
        return f"two processes say that they are rank {other.rank}: on {other.host} and {hellos[other.rank].host}"
    return None


def _missing(cluster: Cluster, hellos: Mapping[int, Hello]) -> str:
    missing = sorted(set(range(cluster.size)) - hellos.keys())
    return (
        f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of {cluster.size} did not come to port "
        f"{cluster.port} of rank 0 within {GATHER_SECONDS:g} s ({where(hellos.values())} did): is each rank started, "
        "and is that port open between the hosts?"
    )


def serve(cluster: Cluster, environment: Environment) -> int:
    """Do, as another rank than 0, what rank 0 says, until it ends the run; return the run's exit status.

    UserError if rank 0 cannot be reached or does not want this rank.
    """
    rank_0 = Address(cluster.host, cluster.port)
    try:
        leader = connect(rank_0, GATHER_SECONDS, **hello(cluster, environment).model_dump(mode="json"))
    except OSError as error:
        raise UserError(
            f"rank {cluster.rank} did not reach rank 0 at {rank_0} within {GATHER_SECONDS:g} s: {error}"
        ) from None
    worker: WorkerProcess | None = None
    with TemporaryDirectory() as scratch, DefaultSelector() as selector:
        selector.register(leader, EVENT_READ)
        try:
            while leader.open:
                ready = [key.fileobj for key, _ in selector.select()]
                if worker is not None and worker in ready:
                    for message in worker.read():
                        leader.send(**message)
                        if "ended" in message:
                            selector.unregister(worker)
                for message in leader.read() if leader in ready else ():
                    match message:
                        case {"refused": reason}:
                            raise UserError(reason)
                        case {"port": _}:
                            leader.send(port=free_port(leader.hosts[0]))
                        case {"start": job}:
                            worker = WorkerProcess(Job.model_validate(job), Path(scratch, "worker.log"))
                            selector.register(worker, EVENT_READ)
                        case {"last_words": _} if worker is not None:
                            leader.send(last_words=worker.last_words())
                        case {"stop": _} if worker is not None:
                            if worker in [key.fileobj for key in selector.get_map().values()]:
                                selector.unregister(worker)
                            worker.close()
                            leader.send(stopped=worker.tail())
                            worker = None
                        case {"end": status}:
                            return int(status)
        finally:
            if worker is not None:
                worker.close()
            leader.close()
    raise RunBroken(f"rank {cluster.rank}: rank 0 at {cluster.host} is gone")


class RemoteWorker:
    """The worker of another rank, through the channel to that rank."""

    def __init__(self, channel: Channel, job: Job) -> None:
        """Have it started."""
        self._channel = channel
        channel.send(start=job.model_dump(mode="json"))

    def fileno(self) -> int:
        """Return the descriptor of the channel, to wait on."""
        return self._channel.fileno()

    def read(self) -> list[Message]:
        """Return what the worker sent, once there is something to read; its last message is `ended`."""
        messages = self._channel.read()
        if not self._channel.open:
            reason = self._channel.fault or "its connection was lost"
            messages.append({"ended": reason, "signal": None, "tail": []})
        return messages

    def last_words(self) -> list[str]:
        """Return what the worker printed last, and where it stands."""
        self._channel.send(last_words=True)
        found: list[str] = self._channel.answer("last_words", ANSWER_SECONDS) or ["the rank does not answer"]
        return found

    def close(self) -> None:
        """Have the worker ended."""
        self._channel.send(stop=True)
        self._channel.answer("stopped", ANSWER_SECONDS)
