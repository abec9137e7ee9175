"""Round-trip times measured by NetPIPE (NPtcp in Debian's package netpipe-tcp)."""

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
"""Function that prefixes a command to run it on a given host or core."""


def netpipe(
    size: int, address: str, server: Command, client: Command, first: int | None = None, repeats: int | None = None
) -> float:
    """Return half the round-trip time in seconds: the best of seven trials, each a mean of `repeats` round trips.

    `server` runs at `address`. NetPIPE begins with a hundred round trips of size `first`, continues with the sizes in
    between, and chooses `repeats` if it is None. Raise RuntimeError if NPtcp fails.
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
    """Wait until the receiver listens, since the transmitter tries once (proc(5), net/tcp; 0A is LISTEN)."""
    sockets, listening = Path(f"/proc/{receiver.pid}/net/tcp"), f":{PORT:04X} 00000000:0000 0A "
    deadline = monotonic() + START_SECONDS
    while listening not in sockets.read_text(encoding="ascii"):
        if monotonic() > deadline:
            raise RuntimeError("NPtcp does not listen")
        sleep(0.02)
