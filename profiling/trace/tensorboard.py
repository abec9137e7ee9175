"""How TensorBoard is started for this machine only."""

from __future__ import annotations

import sys
from pathlib import Path

PORT = 6006
LOOPBACK = "127.0.0.1"


def tensorboard_command(folder: Path, port: int = PORT) -> list[str]:
    """The command that serves the folder's traces and scalars to this machine; port 0 takes any free one."""
    return [
        *(sys.executable, "-m", "tensorboard.main"),
        *("--logdir", str(folder), "--host", LOOPBACK, "--port", str(port)),
        "--load_fast=false",  # the data server in Rust shows no traces, and its binary does not run everywhere
    ]
