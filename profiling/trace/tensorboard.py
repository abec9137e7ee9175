"""TensorBoard, started on this machine only: `python -m profiling.trace.tensorboard FOLDER [PORT]`."""

from __future__ import annotations

import os
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


if __name__ == "__main__":
    command = tensorboard_command(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PORT)
    os.execv(command[0], command)
