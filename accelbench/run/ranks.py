"""Several ranks of one run: rank 0 is the runner, and tells the others over a socket each which worker to start.

The ranks' workers train and exchange through the frameworks' own engines; what goes over these sockets is who measures
what, and how it ended. One message is one line of JSON.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from accelbench import __version__
from accelbench.compare.differences import unlike
from accelbench.errors import RunBroken, UserError
from accelbench.run.cluster import Cluster
from accelbench.run.store import OtherRank
from accelbench.run.worker import Job
from accelbench.run.worker_process import Message, WorkerProcess
from profiling.records.environment import Environment
from profiling.records.point import Device
from profiling.records.stored import Stored

GATHER_SECONDS = 60.0
"""Within which all ranks must have come."""
RETRY_SECONDS = 0.2
ANSWER_SECONDS = 30.0
"""A rank that does not answer for so long is lost."""


class Link:
    """One end of the connection between rank 0 and another rank."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._buffer = b""
        self.open = True

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def own_host(self) -> str:
        """The address of this end."""
        return str(self._socket.getsockname()[0])

    @property
    def other_host(self) -> str:
        return str(self._socket.getpeername()[0])

    def send(self, **message: Any) -> None:
        """Nothing if the other end is gone: the next reading says so."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.open = False

    def read(self) -> list[Message]:
        """The messages that are there, after waiting for the first piece; none and `open` false at the end."""
        try:
            chunk = self._socket.recv(1 << 20)
        except OSError:
            chunk = b""
        if not chunk:
            self.open = False
            return []
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def await_message(self, name: str, seconds: float = ANSWER_SECONDS) -> Any:
        """What the next message of that name says, others being dropped; None if it does not come."""
        deadline = monotonic() + seconds
        with DefaultSelector() as selector:
            selector.register(self, EVENT_READ)
            while self.open and selector.select(max(0.0, deadline - monotonic())):
                for message in self.read():
                    if name in message:
                        return message[name]
        return None

    def close(self) -> None:
        self.open = False
        self._socket.close()


class Hello(Stored):
    """How a rank makes itself known to rank 0."""

    rank: int
    size: int
    version: str
    host: str
    environment: Environment


def hello(cluster: Cluster, environment: Environment) -> Hello:
    """That of this process."""
    return Hello(
        rank=cluster.rank,
        size=cluster.size,
        version=__version__,
        host=socket.gethostname(),
        environment=environment,
    )


def where(hellos: Iterable[Hello]) -> str:
    """How many ranks are on which host."""
    hosts = Counter(hello.host for hello in hellos)
    return ", ".join(f"{count} on {host}" for host, count in hosts.items())


class Ranks:
    """All ranks as rank 0 sees them."""

    def __init__(self, cluster: Cluster, links: Sequence[Link], hellos: Sequence[Hello]) -> None:
        self.cluster = cluster
        self.links = links
        """To ranks 1, 2, …"""
        self.hellos = hellos
        """Of all ranks."""
        hosts = list(dict.fromkeys(hello.host for hello in hellos))
        self.nodes = [hosts.index(hello.host) for hello in hellos]
        """Of each rank: the number of its host, which records do not name."""

    @property
    def size(self) -> int:
        return len(self.hellos)

    def others(self) -> list[OtherRank]:
        """All but rank 0, as the run keeps them."""
        found = zip(self.hellos, self.nodes, strict=True)
        return [OtherRank(rank=hello.rank, node=node, environment=hello.environment) for hello, node in found][1:]

    def addresses(self, size: int) -> list[str]:
        """A host and a free port of each of so many ranks; RunBroken if one does not answer."""
        for link in self.links[: size - 1]:
            link.send(port=True)
        own = self.links[0].own_host
        found = [f"{own}:{free_port(own)}"]
        for rank, link in enumerate(self.links[: size - 1], start=1):
            port = link.await_message("port")
            if port is None:
                raise RunBroken(f"rank {rank} on {self.hellos[rank].host} no longer answers")
            found.append(f"{link.other_host}:{port}")
        return found

    def sentence(self) -> str:
        """Who they are, in words."""
        return f"{self.size} ranks of {self.cluster.launcher}: {where(self.hellos)}"

    def too_few_gpus(self, size: int) -> str | None:
        """Where so many ranks have fewer GPUs than they are, in words; None where each has its own."""
        nodes = self.nodes[:size]
        for node in sorted(set(nodes)):
            members = [hello for hello, its in zip(self.hellos, nodes, strict=False) if its == node]
            cards = {gpu.uuid_hash for hello in members for gpu in hello.environment.gpus}
            if len(cards) < len(members):
                return f"{len(members)} of its {size} processes are on node {node}, and see {len(cards)} GPUs there"
        return None

    def unlike(self, device: Device) -> Iterator[str]:
        """Where a rank's libraries or devices are not those of rank 0, in words."""
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
            for link in ranks.links:
                link.send(end=status)
                link.close()


def _gather(cluster: Cluster, environment: Environment, stack: ExitStack) -> Ranks:
    listener = stack.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", cluster.port))
    except OSError as error:
        raise UserError(
            f"rank 0 cannot listen at port {cluster.port} ({error.strerror}): another job may have it, start this anew"
        ) from None
    listener.listen(cluster.size)
    deadline = monotonic() + GATHER_SECONDS
    links: dict[int, Link] = {}
    hellos = {0: hello(cluster, environment)}
    while len(hellos) < cluster.size:
        listener.settimeout(max(0.01, deadline - monotonic()))
        try:
            link = Link(listener.accept()[0])
        except TimeoutError:
            raise UserError(_missing(cluster, hellos)) from None
        said = link.await_message("hello", max(0.01, deadline - monotonic()))
        if said is None:
            link.close()  # a stranger, or one who gave up
            continue
        other = Hello.model_validate(said)
        refusal = _refusal(cluster, other, hellos)
        if refusal:
            link.send(refused=refusal)
            raise UserError(refusal)
        links[other.rank], hellos[other.rank] = link, other
    return Ranks(cluster, [links[rank] for rank in sorted(links)], [hellos[rank] for rank in sorted(hellos)])


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
    """Do, as another rank than 0, what rank 0 says, until it ends the run; the exit status is the run's.

    UserError if rank 0 cannot be reached or does not want this rank.
    """
    link = Link(_reach(cluster))
    link.send(hello=hello(cluster, environment).model_dump(mode="json"))
    worker: WorkerProcess | None = None
    with TemporaryDirectory() as scratch, DefaultSelector() as selector:
        selector.register(link, EVENT_READ)
        try:
            while link.open:
                ready = [key.fileobj for key, _ in selector.select()]
                if worker is not None and worker in ready:
                    for message in worker.read():
                        link.send(**message)
                        if "ended" in message:
                            selector.unregister(worker)
                for message in link.read() if link in ready else ():
                    match message:
                        case {"refused": reason}:
                            raise UserError(reason)
                        case {"port": _}:
                            link.send(port=free_port(link.own_host))
                        case {"start": job}:
                            worker = WorkerProcess(Job.model_validate(job), Path(scratch, "worker.log"))
                            selector.register(worker, EVENT_READ)
                        case {"last_words": _} if worker is not None:
                            link.send(last_words=worker.last_words())
                        case {"stop": _} if worker is not None:
                            if worker in [key.fileobj for key in selector.get_map().values()]:
                                selector.unregister(worker)
                            worker.close()
                            link.send(stopped=worker.tail())
                            worker = None
                        case {"end": status}:
                            return int(status)
        finally:
            if worker is not None:
                worker.close()
            link.close()
    raise RunBroken(f"rank {cluster.rank}: rank 0 at {cluster.host} is gone")


def _reach(cluster: Cluster) -> socket.socket:
    """A connection to rank 0, which may start later than this rank."""
    deadline = monotonic() + GATHER_SECONDS
    while True:
        try:
            connection = socket.create_connection((cluster.host, cluster.port), timeout=GATHER_SECONDS)
            connection.settimeout(None)
            return connection
        except OSError as error:
            if monotonic() > deadline:
                where = f"{cluster.host}:{cluster.port}"
                raise UserError(
                    f"rank {cluster.rank} did not reach rank 0 at {where} within {GATHER_SECONDS:g} s: {error}"
                ) from None
            sleep(RETRY_SECONDS)


class RemoteWorker:
    """The worker of another rank, through the link to it."""

    def __init__(self, link: Link, job: Job) -> None:
        """Have it started."""
        self._link = link
        link.send(start=job.model_dump(mode="json"))

    def fileno(self) -> int:
        return self._link.fileno()

    def read(self) -> list[Message]:
        messages = self._link.read()
        return messages if self._link.open else [{"ended": "its connection was lost", "signal": None, "tail": []}]

    def last_words(self) -> list[str]:
        self._link.send(last_words=True)
        found: list[str] = self._link.await_message("last_words") or ["the rank does not answer"]
        return found

    def close(self) -> None:
        self._link.send(stop=True)
        self._link.await_message("stopped")


def free_port(host: str) -> int:
    """A port that nothing listens at, just now."""
    with socket.socket() as trial:
        trial.bind((host, 0))
        return int(trial.getsockname()[1])
