"""Rendezvous of the ranks: rank 0 accepts each other rank of its run once, and refuses all other connections."""

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
from accelbench.execution.ranks import GATHER_SECONDS, Handshake, Peer, Ranks, hosts_text, own_handshake
from accelbench.execution.secret import take_secret
from accelbench.output.plain_text import plain
from accelbench.profiling.child import SECRET
from accelbench.profiling.ranks.channel import Address, Message
from accelbench.profiling.ranks.rendezvous import accept, authenticated_peers, listen, refuse
from accelbench.profiling.records.environment import Environment

LOG = logging.getLogger(__name__)


@contextmanager
def gathered(cluster: Cluster, environment: Environment) -> Iterator[Ranks]:
    """Wait as rank 0 for all other ranks, and end them after this block.

    Raises UserError if the port is in use, a rank is missing after the timeout, or a rank is from another launch.
    """
    secret, own = take_secret(), own_handshake(cluster, environment)
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
    """Listen at the coordinator's address, or at all addresses of this host if other hosts cannot reach it."""
    local = is_loopback(cluster.host)
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(cluster.host, None, type=socket.SOCK_STREAM)]
    except OSError:
        found = []
    try:
        # On many hosts the own name resolves to a loopback address, which other hosts cannot reach.
        for host in [host for host in found if local or not is_loopback(host)]:
            try:
                return listen(Address(host, cluster.port))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
        LOG.warning(
            f"{plain(cluster.host)} is not a network address of this host: rank 0 listens at all addresses until the "
            "other ranks have connected"
        )
        return listen(Address("::" if ":" in cluster.host else "", cluster.port))
    except OSError as error:
        raise UserError(
            f"rank 0 cannot listen at port {cluster.port} ({os.strerror(error.errno or 0)}): another job may use it; "
            "repeat the command"
        ) from None


def is_loopback(host: str) -> bool:
    """Return whether the host is a loopback address or "localhost"."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _gather(cluster: Cluster, own: Handshake, listener: socket.socket, secret: str) -> list[Peer]:
    """Return ranks 1, 2, … after all have connected; other peers are refused."""
    handshakes = {0: own}
    peers: dict[int, Peer] = {}
    with closing(authenticated_peers(listener, secret, monotonic() + GATHER_SECONDS, cluster.size - 1)) as pending:
        while len(peers) < cluster.size - 1:
            try:
                channel, received = next(pending)
            except TimeoutError:
                raise UserError(_missing(cluster, handshakes)) from None
            except OSError as error:
                raise UserError(str(error.strerror)) from None
            if reason := _of_another_launch(cluster, received):
                refuse(channel, reason)
                raise UserError(reason)
            try:
                other = Handshake.model_validate(received)
                reason = _no_place(cluster, other, handshakes)
            except ValidationError:
                reason = "a process sent an invalid handshake"
            if reason:
                LOG.warning(plain(reason))
                refuse(channel, reason)
            else:
                accept(channel)
                handshakes[other.rank] = other
                peers[other.rank] = Peer(channel, other)
    return [peers[rank] for rank in sorted(peers)]


def _of_another_launch(cluster: Cluster, received: Message) -> str | None:
    """Return the reason if the handshake is from another version or another launch, else None."""
    who = f"rank {received.get('rank')} on {received.get('host')}"
    if received.get("version") != __version__:
        return f"{who} runs accelbench {received.get('version')}, and rank 0 {__version__}"
    if received.get("size") != cluster.size:
        return (
            f"{who} expects {received.get('size')} ranks, rank 0 expects {cluster.size}: start all ranks by one launch"
        )
    return None


def _no_place(cluster: Cluster, other: Handshake, handshakes: Mapping[int, Handshake]) -> str | None:
    """Return the reason if the peer's rank is invalid or already connected, else None."""
    if not 0 < other.rank < cluster.size:
        return f"a process on {other.host} has an invalid rank: {other.rank} of {cluster.size}"
    if other.rank in handshakes:
        return f"two processes have rank {other.rank}: on {other.host} and {handshakes[other.rank].host}"
    return None


def _missing(cluster: Cluster, handshakes: Mapping[int, Handshake]) -> str:
    missing = sorted(set(range(cluster.size)) - handshakes.keys())
    return (
        f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of {cluster.size} did not connect to port "
        f"{cluster.port} of rank 0 within {GATHER_SECONDS:g} s (connected: {hosts_text(handshakes.values())}). Start "
        "every rank, open the port between the hosts, and use one secret on all hosts (a shared home directory, or "
        f"{SECRET})"
    )
