"""Messages through a plain TCP socket, each of them sent at once.

Bound: the link and the kernel's way through it. Debian's `netpipe-tcp` (NPtcp), which is C, measures the same.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import Any

from kernels.lockstep import Lockstep, lockstep, no_delay, reach, split
from kernels.pingpong.trips import Trips, make_task, require_host_memory
from profiling.benchmark import Point, Task
from profiling.world import World, world


def prepare(point: Point) -> Task:
    """Skip where the memory does not suffice."""
    here = world()
    require_host_memory(point, here)
    steps = lockstep(here)
    peer = connection(steps)
    return make_task(point, (ping if here.rank == 0 else pong)(peer), steps, here)


@lru_cache(maxsize=1)
def connection(steps: Lockstep) -> socket.socket:
    """The socket between rank 0 and the last rank, the same for all points; of another rank one that leads nowhere."""
    return connect(steps, world())


def connect(steps: Lockstep, here: World) -> socket.socket:
    """Rank 0 listens, at a port that was free, and the last rank comes."""
    host, _ = split(here.addresses[0])
    with socket.create_server((host, 0)) if here.rank == 0 else socket.socket() as listener:
        port = steps.exchange(listener.getsockname()[1] if here.rank == 0 else None)[0]
        if here.rank == 0:
            peer = listener.accept()[0]
            no_delay(peer)
            return peer
    return reach(f"{host}:{port}") if here.rank == here.size - 1 else socket.socket()


def ping(peer: socket.socket) -> Trips:
    """Of the rank that begins."""

    def trips(payload: Any, returned: Any, loops: int) -> None:
        send, there, back = peer.sendall, memoryview(payload), memoryview(returned)
        for _ in range(loops):
            send(there)
            receive(peer, back)

    return trips


def pong(peer: socket.socket) -> Trips:
    """Of the rank that sends back what it received."""

    def trips(payload: Any, returned: Any, loops: int) -> None:
        send, message = peer.sendall, memoryview(payload)
        for _ in range(loops):
            receive(peer, message)
            send(message)

    return trips


def receive(peer: socket.socket, message: memoryview) -> None:
    """Fill the whole message; ConnectionError if the other end closes before."""
    size = len(message)
    got = peer.recv_into(message, size, socket.MSG_WAITALL)
    while got < size:  # a signal came in between
        more = peer.recv_into(message[got:], size - got, socket.MSG_WAITALL)
        if more == 0:
            raise ConnectionError("the other rank has closed the connection")
        got += more
