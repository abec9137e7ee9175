"""A rank besides rank 0: it starts the workers that rank 0 asks for, and passes on what they say."""

from __future__ import annotations

from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from accelbench.errors import RunBroken, UserError
from accelbench.execution.cluster import Cluster
from accelbench.execution.ranks import GATHER_SECONDS, hello
from accelbench.execution.secret import SECRET, take_secret
from accelbench.execution.worker import Job, Order
from accelbench.execution.worker_process import WorkerProcess
from accelbench.profiling.ranks.channel import Address, Channel, Message, free_port
from accelbench.profiling.ranks.rendezvous import RankRefused, UnauthenticatedPeer, connect, derive
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.record import Record

ALIVE_SECONDS = 1.0
"""The time in seconds after which rank 0 is told again that this rank is there, while a worker measures."""


def serve(cluster: Cluster, environment: Environment) -> int:
    """Do what rank 0 says, until it ends the run; return the run's exit status.

    UserError if rank 0 cannot be reached or has no place for this rank, RunBroken if it is lost.
    """
    secret = take_secret()
    leader = _found(cluster, environment, secret)
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
                        case {"last_words": _} if worker is not None:
                            leader.send(last_words=worker.last_words())
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
    raise RunBroken(f"rank {cluster.rank}: rank 0 at {cluster.host} is gone")


def as_json(value: Any) -> Any:
    """Return a value of a worker's message as JSON data."""
    return value.model_dump(mode="json") if isinstance(value, Record) else value


def _found(cluster: Cluster, environment: Environment, secret: str) -> Channel:
    """Return the channel to rank 0, to whom this rank has introduced itself."""
    rank_0 = Address(cluster.host, cluster.port)
    introduction = hello(cluster, environment).model_dump(mode="json")
    try:
        return connect(rank_0, GATHER_SECONDS, secret, **introduction)
    except RankRefused as refused:
        raise UserError(str(refused)) from None
    except OSError as error:
        advice = (
            f": has it the same home as this host, or was {SECRET} set?"
            if isinstance(error, UnauthenticatedPeer)
            else ""
        )
        raise UserError(
            f"rank {cluster.rank} did not reach rank 0 at {rank_0} within {GATHER_SECONDS:g} s: {error}{advice}"
        ) from None


def job_of(message: Message, secret: str) -> Job:
    """Return the job that rank 0 orders, with the secret of its workers; it keeps nothing, as rank 0's own does."""
    try:
        order = Order.model_validate(message["start"])
        world = order.world.model_copy(update={"secret": derive(secret, message["nonce"])})
    except (ValidationError, KeyError, TypeError):
        raise RunBroken("rank 0 gave an order that no rank takes") from None
    return Job(**dict(order) | {"world": world})
