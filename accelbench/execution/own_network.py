"""Isolated network for the processes of one host: a Linux network namespace with only a loopback device.

Processes outside the namespace cannot connect to ports inside, at any address.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # sched.h
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914  # linux/sockios.h
IFF_UP = 1  # net/if.h
LOOPBACK = b"lo"


def isolate_network() -> bool:
    """Move this process and its future children into a new network namespace; return False if that is not permitted.

    The process must have no other threads. Without root rights a user namespace is created, too, with the same user ID.
    """
    if sys.platform != "linux":
        return False
    for flags in (CLONE_NEWNET, CLONE_NEWUSER | CLONE_NEWNET):
        if _succeeds_in_a_child(flags):
            _enter(flags)
            return True
    return False


def _succeeds_in_a_child(flags: int) -> bool:
    """Return whether a child process can enter the namespace; this process could not leave it after a failure."""
    child = os.fork()
    if child == 0:
        try:
            _enter(flags)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _enter(flags: int) -> None:
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    if flags & CLONE_NEWUSER:
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")  # required for mapping groups without root rights
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", LOOPBACK, 0)
        (found,) = struct.unpack_from("16xH", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", LOOPBACK, found | IFF_UP))
