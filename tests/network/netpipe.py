"""Debian's NPtcp (package netpipe-tcp): round trips of a message over a socket, in C."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

PORT = 5_733
START_SECONDS = 20
LONGEST_SECONDS = 120

Command = Callable[..., list[str]]
"""Puts before a command what runs it at its place: on a host, on a core."""


def netpipe(
    size: int, address: str, server: Command, client: Command, first: int | None = None, repeats: int | None = None
) -> float:
    """Seconds of half a round trip: of seven trials the best, each the mean of `repeats`, which NetPIPE else chooses.

    `server` runs at `address`. NetPIPE begins with a hundred trips of the `first` size, and goes through those between;
    RuntimeError where the two do not come to an end.
    """
    sizes = ["-l", str(first or size), "-u", str(size), "-p", "0", "-P", str(PORT)]
    sizes += ["-n", str(repeats)] if repeats else []
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "np.out")
        receiver = subprocess.Popen(
            server("NPtcp", *sizes, "-o", str(Path(folder, "receiver.out"))),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await_listener(receiver)
            transmitter = subprocess.run(
                client("NPtcp", "-h", address, *sizes, "-o", str(found)),
                capture_output=True,
                text=True,
                timeout=LONGEST_SECONDS,
            )
            if transmitter.returncode or not found.exists():
                raise RuntimeError(f"NPtcp: {transmitter.stderr.strip()} {transmitter.stdout.strip()}")
            length, _, seconds = found.read_text(encoding="utf-8").splitlines()[-1].split()
            assert int(length) == size
            return float(seconds)
        finally:
            receiver.kill()
            receiver.wait()


def _await_listener(receiver: subprocess.Popen[bytes]) -> None:
    """Wait until it listens, in its own network: the transmitter tries once (proc(5), net/tcp; 0A is LISTEN)."""
    sockets, listening = Path(f"/proc/{receiver.pid}/net/tcp"), f":{PORT:04X} 00000000:0000 0A "
    deadline = monotonic() + START_SECONDS
    while listening not in sockets.read_text(encoding="ascii"):
        if monotonic() > deadline:
            raise RuntimeError("NPtcp does not listen")
        sleep(0.02)
