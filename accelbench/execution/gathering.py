"""Rank 0 waits for the other ranks of its run, takes in each once, and nobody else."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from ipaddress import ip_address
from time import monotonic

from pydantic import ValidationError

from accelbench import __version__
from accelbench.errors import UserError
from accelbench.execution.cluster import Cluster
from accelbench.execution.ranks import GATHER_SECONDS, Hello, Peer, Ranks, hello, where
from accelbench.execution.secret import SECRET, take_secret
from accelbench.output.plain_text import plain
from accelbench.profiling.ranks.channel import Address, Message
from accelbench.profiling.ranks.rendezvous import accept, authenticated_peers, listen, refuse
from accelbench.profiling.records.environment import Environment

LOG = logging.getLogger(__name__)


@contextmanager
def gathered(cluster: Cluster, environment: Environment) -> Iterator[Ranks]:
    """Wait, as rank 0, for all other ranks; they end with this block.

    UserError where the port is taken, or not all ranks come, or they are not of one launch.
    """
    secret, own = take_secret(), hello(cluster, environment)
    with listener_of(cluster) as listener:
        ranks = Ranks(cluster, own, _gather(cluster, own, listener, secret), secret)
    status = 1
    try:
        yield ranks
        status = 0
    finally:
        for peer in ranks.peers:
            peer.channel.send(end=status)
            peer.channel.close()


def listener_of(cluster: Cluster) -> socket.socket:
    """Listen at the coordinator's own address, or at all of this host's where that is none by which others reach it."""
    local = is_loopback(cluster.host)
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(cluster.host, None, type=socket.SOCK_STREAM)]
    except OSError:
        found = []
    try:
        # Many hosts have their own name for a loopback address, by which only they reach themselves.
        for host in [host for host in found if local or not is_loopback(host)]:
            try:
                return listen(Address(host, cluster.port))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
        LOG.warning(
            f"{plain(cluster.host)} is no address of this host in the network: rank 0 listens at all of its addresses "
            "until the other ranks have come"
        )
        return listen(Address("::" if ":" in cluster.host else "", cluster.port))
    except OSError as error:
        raise UserError(
            f"rank 0 cannot listen at port {cluster.port} ({os.strerror(error.errno or 0)}): another job may have it, "
            "start this anew"
        ) from None


def is_loopback(host: str) -> bool:
    """Return whether this is an address by which a host reaches itself alone, or the name that stands for it."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _gather(cluster: Cluster, own: Hello, listener: socket.socket, secret: str) -> list[Peer]:
    """Return ranks 1, 2, … once each has come; who is none of them is let go."""
    peers: dict[int, Peer] = {}
    with closing(authenticated_peers(listener, secret, monotonic() + GATHER_SECONDS)) as coming:
        while len(peers) < cluster.size - 1:
            hellos = {0: own} | {rank: peer.hello for rank, peer in peers.items()}
            try:
                channel, said = next(coming)
            except TimeoutError:
                raise UserError(_missing(cluster, hellos)) from None
            if reason := _of_another_launch(cluster, said):
                refuse(channel, reason)
                raise UserError(reason)
            try:
                other = Hello.model_validate(said)
                reason = _no_place(cluster, other, hellos)
            except ValidationError:
                reason = "a process introduced itself as no rank of accelbench does"
            if reason:
                LOG.warning(plain(reason))
                refuse(channel, reason)
            else:
                accept(channel)
                peers[other.rank] = Peer(channel, other)
    return [peers[rank] for rank in sorted(peers)]


def _of_another_launch(cluster: Cluster, said: Message) -> str | None:
    """Return why the ranks that were started are no run, in words; None where nothing speaks against it."""
    who = f"rank {said.get('rank')} on {said.get('host')}"
    if said.get("version") != __version__:
        return f"{who} runs accelbench {said.get('version')}, and rank 0 {__version__}"
    if said.get("size") != cluster.size:
        return f"{who} was told of {said.get('size')} ranks, and rank 0 of {cluster.size}: they are not of one launch"
    return None


def _no_place(cluster: Cluster, other: Hello, hellos: Mapping[int, Hello]) -> str | None:
    """Return why this process can be no rank of this run, in words, while the true one may still come."""
    if not 0 < other.rank < cluster.size:
        return f"a process on {other.host} says that it is rank {other.rank} of {cluster.size}"
    if other.rank in hellos:
        return f"two processes say that they are rank {other.rank}: on {other.host} and {hellos[other.rank].host}"
    return None


def _missing(cluster: Cluster, hellos: Mapping[int, Hello]) -> str:
    missing = sorted(set(range(cluster.size)) - hellos.keys())
    return (
        f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of {cluster.size} did not come to port "
        f"{cluster.port} of rank 0 within {GATHER_SECONDS:g} s ({where(hellos.values())} did): is each rank started, "
        f"is that port open between the hosts, and is the secret the same on all of them (a home that they share, or "
        f"{SECRET})?"
    )
