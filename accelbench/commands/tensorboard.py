"""The command `tensorboard`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import click

from accelbench.commands import complete_run
from accelbench.errors import UserError
from accelbench.profiling.child import child_command

PORT = 6006
LOOPBACK = "127.0.0.1"
SILENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
"""TensorFlow, which the server imports and hardly uses, says nothing of this CPU's instructions at its start."""


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes any free one.")
def command(run: str, port: int) -> int:
    """Open a run's traces and scalars in TensorBoard, on this machine only."""
    from accelbench.output.console import say
    from accelbench.profiling.trace.formats import FORMATS
    from accelbench.results.find_run import open_run

    store = open_run(run)
    traces = store.path / "traces"
    if not traces.is_dir():
        raise UserError(f"{traces.parent} has no traces: 'accelbench run --trace' keeps them")
    if port:
        say("\n".join(["what opens without the internet, once the server is up:", *links(traces, port)]))
    say(f"the other pages of the profile take their charts from the web; their tables are in {store.path}/report.html")
    for form in FORMATS:
        if form.no_xprof:
            for file in sorted(traces.rglob(form.files)):
                say(f"TensorBoard does not show this trace, {form.viewers} does: {file}", stderr=True)
    return subprocess.run(tensorboard_command(traces, port), check=False, env=SILENT | os.environ).returncode


def links(traces: Path, port: int) -> Iterator[str]:
    """Yield the addresses of the curves and of each trace in the Trace Viewer."""
    from accelbench.profiling.trace.formats import XPLANE

    server = f"http://{LOOPBACK}:{port}"
    yield f"  {server}/#scalars"
    for file in sorted(traces.glob(f"*/{XPLANE.files}")):
        session = quote(f"{file.relative_to(traces).parts[0]}/{file.parent.name}")
        yield f"  {server}/?run={session}&tool=trace_viewer@#profile"


def tensorboard_command(folder: Path, port: int) -> list[str]:
    """Return the command that serves the folder's traces and scalars to this machine; port 0 takes any free one.

    The server ends with this process, however that ends, and leaves its port.
    """
    rust = "--load_fast=false"  # the data server in Rust shows no traces, and its binary does not run everywhere
    where = ("--logdir", str(folder), "--host", LOOPBACK, "--port", str(port))
    return child_command("tensorboard.main", *where, rust)
