"""Messages over a TCP socket, sent without delay, by the C library's calls from compiled code.

Bound: the link and the kernel's way through it. Debian's `netpipe-tcp` (NPtcp), which is C, measures the same; an
interpreter between the calls added 5 µs of CPU time to each message on a busy machine.
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
"""An end that has closed is an error, and does not kill this process."""


def prepare(point: Point) -> Task:
    """Skip where the memory does not suffice."""
    here = world()
    require_host_memory(point, here)
    steps = lockstep(here)
    return make_task(point, round_trips(connection(steps), ping if here.rank == 0 else pong), steps, here)


@lru_cache(maxsize=1)
def connection(steps: Lockstep) -> Channel:
    """Return the connection of rank 0 and the last rank, the same for all points; other ranks' leads nowhere."""
    return meet(steps, world())


def meet(steps: Lockstep, here: World) -> Channel:
    """Listen as rank 0, at a port that is free, and come there as the last rank."""
    host, last = Address.parse(here.addresses[0]).host, here.size - 1
    if here.rank == 0:
        with listen(Address(host, 0)) as listener:
            steps.exchange(listener.getsockname()[1])
            peer = gather(listener, [last], MEET_SECONDS, here.secret)[last]
    else:
        port = steps.exchange(None)[0]
        there = here.rank == last
        peer = connect(Address(host, port), MEET_SECONDS, here.secret, rank=last) if there else Channel(socket.socket())
    steps.exchange(None)  # until the last rank has read its welcome, what is sent would be taken for a part of that
    return peer


def round_trips(peer: Channel, exchange: Any) -> Trips:
    """Return the round trips of one end, `ping` or `pong`; ConnectionError if the other end closes."""

    def trips(payload: Any, returned: Any, loops: int) -> None:
        if not exchange(peer.fileno(), payload, returned, loops):
            raise ConnectionError("the connection to the other rank has ended")

    return trips


@compiled
def ping(descriptor: int, payload: Any, returned: Any, loops: int) -> bool:
    """Make the round trips of the rank that begins; false if the connection has ended."""
    done = 0
    while done < loops and send(descriptor, payload) and receive(descriptor, returned):
        done += 1
    return done == loops


@compiled
def pong(descriptor: int, payload: Any, returned: Any, loops: int) -> bool:
    """Make the round trips of the rank that sends back what it received; false if the connection has ended."""
    done = 0
    while done < loops and receive(descriptor, payload) and send(descriptor, payload):
        done += 1
    return done == loops


@compiled
def send(descriptor: int, message: Any) -> bool:
    """Send the whole message; false if the connection has ended."""
    done = 0
    while done < message.size:
        some = send_some(descriptor, message[done:].ctypes.data, message.size - done, NO_SIGNAL)
        if some <= 0:
            return False
        done += some
    return True


@compiled
def receive(descriptor: int, message: Any) -> bool:
    """Fill the whole message; false if the connection has ended."""
    done = 0
    while done < message.size:
        some = receive_some(descriptor, message[done:].ctypes.data, message.size - done, 0)
        if some <= 0:
            return False
        done += some
    return True
