"""Messages over a TCP socket with TCP_NODELAY, by calls of the C library from compiled code.

Bound: the link and the kernel's network stack. NPtcp of Debian's `netpipe-tcp`, written in C, gives the same results.
Calls from the Python interpreter instead took 5 µs more CPU time per message on a busy machine.
"""

from __future__ import annotations

import ctypes
import socket
from functools import lru_cache
from typing import Any

from accelbench.kernels.lib.cpu.threads import compiled
from accelbench.kernels.lib.ranks.lockstep import MEET_SECONDS, Lockstep, lockstep
from accelbench.kernels.pingpong.trips import Trips, make_task, require_host_memory
from accelbench.profiling.benchmark import Task
from accelbench.profiling.ranks.channel import Address, Channel
from accelbench.profiling.ranks.rendezvous import connect, gather, listen
from accelbench.profiling.ranks.world import World, world
from accelbench.profiling.records.point import Point

LIBRARY = ctypes.CDLL(None)
send_some, receive_some = LIBRARY.send, LIBRARY.recv
for call in (send_some, receive_some):
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    call.restype = ctypes.c_ssize_t
NO_SIGNAL = int(socket.MSG_NOSIGNAL)
"""Flag with which a closed connection is an error instead of a fatal SIGPIPE."""


def prepare(point: Point) -> Task:
    """Return this rank's task; Skip without enough memory."""
    here = world()
    require_host_memory(point, here)
    steps = lockstep(here)
    return make_task(point, round_trips(connection(steps), ping if here.rank == 0 else pong), steps, here)


@lru_cache(maxsize=1)
def connection(steps: Lockstep) -> Channel:
    """Return the connection between rank 0 and the last rank, one for all points; unconnected on other ranks."""
    return meet(steps, world())


def meet(steps: Lockstep, here: World) -> Channel:
    """Connect the last rank to rank 0, which listens on a free port, and return the channel."""
    host, last = Address.parse(here.addresses[0]).host, here.size - 1
    if here.rank == 0:
        with listen(Address(host, 0)) as listener:
            steps.exchange(listener.getsockname()[1])
            peer = gather(listener, [last], MEET_SECONDS, here.secret)[last]
    else:
        port = steps.exchange(None)[0]
        there = here.rank == last
        peer = connect(Address(host, port), MEET_SECONDS, here.secret, rank=last) if there else Channel(socket.socket())
    steps.exchange(None)  # rank 0 must not send before the last rank has completed the handshake
    return peer


def round_trips(peer: Channel, exchange: Any) -> Trips:
    """Return the function for round trips by `ping` or `pong`; it raises ConnectionError if the peer closes."""

    def trips(payload: Any, returned: Any, loops: int) -> None:
        if not exchange(peer.fileno(), payload, returned, loops):
            raise ConnectionError("the connection to the other rank has ended")

    return trips


@compiled
def ping(descriptor: int, payload: Any, returned: Any, loops: int) -> bool:
    """Do round trips as the rank that sends first; return false if the connection has ended."""
    done = 0
    while done < loops and send(descriptor, payload) and receive(descriptor, returned):
        done += 1
    return done == loops


@compiled
def pong(descriptor: int, payload: Any, returned: Any, loops: int) -> bool:
    """Do round trips as the rank that returns received messages; return false if the connection has ended."""
    done = 0
    while done < loops and receive(descriptor, payload) and send(descriptor, payload):
        done += 1
    return done == loops


@compiled
def send(descriptor: int, message: Any) -> bool:
    """Send the complete message; return false if the connection has ended."""
    done = 0
    while done < message.size:
        some = send_some(descriptor, message[done:].ctypes.data, message.size - done, NO_SIGNAL)
        if some <= 0:
            return False
        done += some
    return True


@compiled
def receive(descriptor: int, message: Any) -> bool:
    """Receive the complete message; return false if the connection has ended."""
    done = 0
    while done < message.size:
        some = receive_some(descriptor, message[done:].ctypes.data, message.size - done, 0)
        if some <= 0:
            return False
        done += some
    return True
