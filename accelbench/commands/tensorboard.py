"""The command `tensorboard`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from accelbench.commands import complete_run
from accelbench.errors import UserError
from accelbench.run.child import child_command

PORT = 6006
LOOPBACK = "127.0.0.1"


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes any free one.")
def command(run: str, port: int) -> int:
    """Open a run's traces and scalars in TensorBoard, on this machine only."""
    from accelbench.find_run import open_run

    traces = open_run(run).path / "traces"
    if not traces.is_dir():
        raise UserError(f"{traces.parent} has no traces: 'accelbench run --trace', or make bench TRACE=1, keeps them")
    return subprocess.run(tensorboard_command(traces, port), check=False).returncode


def tensorboard_command(folder: Path, port: int) -> list[str]:
    """Return the command that serves the folder's traces and scalars to this machine; port 0 takes any free one.

    The server ends with this process, however that ends, and leaves its port.
    """
    rust = "--load_fast=false"  # the data server in Rust shows no traces, and its binary does not run everywhere
    where = ("--logdir", str(folder), "--host", LOOPBACK, "--port", str(port))
    return child_command("tensorboard.main", *where, rust)
