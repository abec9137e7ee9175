"""Ranks other than 0: start workers as requested by rank 0, and forward their messages."""

from __future__ import annotations

from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from accelbench.errors import RunBroken, UserError
from accelbench.execution.cluster import Cluster
from accelbench.execution.ranks import GATHER_SECONDS, own_handshake
from accelbench.execution.secret import take_secret
from accelbench.execution.worker import LocalWorkerJob, WorkerJob
from accelbench.execution.worker_process import WorkerProcess
from accelbench.profiling.child import SECRET
from accelbench.profiling.ranks.channel import Address, Channel, Message, free_port
from accelbench.profiling.ranks.rendezvous import RankRefused, UnauthenticatedPeer, connect, derive
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.record import Record

ALIVE_SECONDS = 1.0
"""Interval in seconds of this rank's heartbeats to rank 0 while a worker measures."""


def serve(cluster: Cluster, environment: Environment) -> int:
    """Serve requests of rank 0 until the end of the run; return the run's exit status.

    Raises UserError if rank 0 is unreachable or refuses this rank, and RunBroken if the connection is lost.
    """
    secret = take_secret()
    leader = _connected(cluster, environment, secret)
    worker: WorkerProcess | None = None
    with TemporaryDirectory() as scratch, DefaultSelector() as selector:
        selector.register(leader, EVENT_READ)
        try:
            while leader.open:
                ready = [key.fileobj for key, _ in selector.select(ALIVE_SECONDS if worker else None)]
                if worker is not None:
                    leader.send(alive=True)
                if worker is not None and worker in ready:
                    for message in worker.read():
                        leader.send(**{name: as_json(value) for name, value in message.items()})
                        if "ended" in message:
                            selector.unregister(worker)
                for message in leader.read() if leader in ready else ():
                    match message:
                        case {"port": _}:
                            leader.send(port=free_port(leader.hosts[0]))
                        case {"start": _}:
                            worker = WorkerProcess(job_of(message, secret), Path(scratch, "worker.log"))
                            selector.register(worker, EVENT_READ)
                        case {"tail_and_stack": _} if worker is not None:
                            leader.send(tail_and_stack=worker.tail_and_stack())
                        case {"stop": _} if worker is not None:
                            if worker in [key.fileobj for key in selector.get_map().values()]:
                                selector.unregister(worker)
                            worker.close()
                            leader.send(stopped=True)
                            worker = None
                        case {"end": status}:
                            return int(status)
        finally:
            if worker is not None:
                worker.close()
            leader.close()
    raise RunBroken(f"rank {cluster.rank}: the connection to rank 0 at {cluster.host} was lost")


def as_json(value: Any) -> Any:
    """Return a value of a message as JSON data; records are serialized."""
    return value.model_dump(mode="json") if isinstance(value, Record) else value


def _connected(cluster: Cluster, environment: Environment, secret: str) -> Channel:
    """Connect to rank 0 and send the handshake; return the channel."""
    rank_0 = Address(cluster.host, cluster.port)
    handshake = own_handshake(cluster, environment).model_dump(mode="json")
    try:
        return connect(rank_0, GATHER_SECONDS, secret, **handshake)
    except RankRefused as refused:
        raise UserError(str(refused)) from None
    except OSError as error:
        advice = (
            f"; the hosts must share the home directory, or {SECRET} must be set to the same text"
            if isinstance(error, UnauthenticatedPeer)
            else ""
        )
        raise UserError(
            f"rank {cluster.rank} did not reach rank 0 at {rank_0} within {GATHER_SECONDS:g} s: {error}{advice}"
        ) from None


def job_of(message: Message, secret: str) -> LocalWorkerJob:
    """Return the job in a message of rank 0, with the secret derived and no folders to keep; RunBroken if invalid."""
    try:
        job = WorkerJob.model_validate(message["start"])
        world = job.world.model_copy(update={"secret": derive(secret, message["nonce"])})
    except (ValidationError, KeyError, TypeError):
        raise RunBroken("rank 0 sent an invalid job") from None
    return LocalWorkerJob(**dict(job) | {"world": world})
