"""The frameworks' engines reach the other processes directly, at the addresses that the ranks know."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.ranks.world import world

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_GRPC_PROXY, NO_PROXY = "no_grpc_proxy", "no_proxy"
"""gRPC reads the second only where the first is not set."""


def require_trusted_network() -> None:
    """Skip where strangers could reach TensorFlow's servers, unless the user trusts all who can.

    They listen at all addresses of the host, whichever they are given, and do what anyone asks who reaches them, as
    their user: they run operations that read and write files.
    """
    if not world().trusted and not _is_alone():
        raise Skip(
            "TensorFlow's servers would let anyone who reaches this host's ports read and write this user's files: "
            "'accelbench launch' keeps strangers away where the system allows namespaces of networks, and "
            "--trusted-network says that there are none"
        )


def _is_alone() -> bool:
    """Return whether this process's network consists of itself: it has no address but those of the loopback device."""
    import psutil

    addresses = [
        address.address.partition("%")[0]
        for each in psutil.net_if_addrs().values()
        for address in each
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return all(ip_address(address).is_loopback for address in addresses)


def meet_directly() -> None:
    """Have gRPC use no proxy to the ranks, and gloo and NCCL the interface of this rank's address, or the user's.

    gRPC sends all calls to the proxy of `http_proxy`, which a site sets for the web and which knows no hosts of its
    own. gloo would take the interface of the host's name, which others may not reach.
    """
    if any(os.environ.get(name) for name in PROXIES):
        hosts = sorted({Address.parse(address).host for address in world().addresses})
        others = os.environ.get(NO_GRPC_PROXY) or os.environ.get(NO_PROXY)
        os.environ[NO_GRPC_PROXY] = ",".join([*hosts, *([others] if others else [])])
    interface = world().interface
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        # NCCL takes a name for the beginning of one, unless it is told otherwise.
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
