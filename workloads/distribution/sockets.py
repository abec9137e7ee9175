"""Network settings of the frameworks' engines: direct connections between ranks, and protection of open ports."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.ranks.world import world

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_GRPC_PROXY, NO_PROXY = "no_grpc_proxy", "no_proxy"
"""Variables with hosts that bypass the proxy; gRPC reads the second only if the first is unset."""


def require_trusted_network() -> None:
    """Skip if untrusted hosts could reach TensorFlow's servers, unless the user has declared the network trusted.

    The servers listen on all addresses, regardless of the configured one, and execute any client's operations as their
    user, including reading and writing files.
    """
    if not world().trusted and not _only_loopback():
        raise Skip(
            "TensorFlow's servers would let any host that reaches this one's ports read and write this user's files: "
            "use 'accelbench launch', which isolates them where the system allows network namespaces, or pass "
            "--trusted-network if all hosts are trusted"
        )


def _only_loopback() -> bool:
    """Return whether this process's network has only loopback addresses."""
    import psutil

    addresses = [
        address.address.partition("%")[0]
        for each in psutil.net_if_addrs().values()
        for address in each
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return all(ip_address(address).is_loopback for address in addresses)


def connect_directly() -> None:
    """Exclude the ranks from gRPC's proxy, and set gloo's and NCCL's interface to this rank's, unless the user has.

    gRPC sends all calls to `http_proxy`, which sites set for the web and which cannot resolve cluster hosts. gloo would
    use the interface of the host name, which other hosts may not reach.
    """
    if any(os.environ.get(name) for name in PROXIES):
        hosts = sorted({Address.parse(address).host for address in world().addresses})
        others = os.environ.get(NO_GRPC_PROXY) or os.environ.get(NO_PROXY)
        os.environ[NO_GRPC_PROXY] = ",".join([*hosts, *([others] if others else [])])
    interface = world().interface
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        # Without "=" NCCL treats the value as a prefix of interface names.
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
