"""The frameworks' engines reach the other processes directly, at the addresses that the ranks know."""

from __future__ import annotations

import os

from profiling.ranks.channel import Address
from profiling.ranks.world import world

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_GRPC_PROXY, NO_PROXY = "no_grpc_proxy", "no_proxy"
"""gRPC reads the second only where the first is not set."""


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
